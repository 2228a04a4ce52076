/*
 * Why a parallel region of one thread costs nothing here.
 *
 * Small work runs on one thread: `#pragma omp parallel for num_threads(1)`. That could be a plain
 * call, but GCC's OpenMP makes a team for it: malloc, semaphores, free, which takes longer than the
 * linear model's arithmetic (docs/beyond_ddp.md has the measurement: 0.94 s with teams, 0.41 s
 * without), and nothing shall be allocated in the training loop. An if() clause makes the team,
 * too, and a second copy of each loop without the pragma would have to be kept the same.
 *
 * GCC turns a region into a function of its own and a call GOMP_parallel(function, data, threads).
 * The linker redirects that call to us (-Wl,--wrap=GOMP_parallel in the Makefile): __wrap_... is
 * what is called now, __real_... the library's. With one thread we call the function ourselves.
 * Outside of a team that thread is number 0 of 1 and gets all of a static loop; a dynamic loop
 * needs bookkeeping, by malloc, so kernels use none. Other compilers' OpenMP has other names, and
 * this file no effect.
 */
void __real_GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags);
void __wrap_GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags);

void __wrap_GOMP_parallel(void (*region)(void *), void *data, unsigned threads, unsigned flags)
{
    if (threads == 1)
        region(data);
    else
        __real_GOMP_parallel(region, data, threads, flags);
}
