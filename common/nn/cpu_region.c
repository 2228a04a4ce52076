/*
 * A parallel region of one thread could be a plain call, but GCC's OpenMP makes a team for it:
 * malloc, semaphores, free, which takes longer than the linear model's arithmetic. So the linker
 * redirects GOMP_parallel to us (--wrap in the Makefile), and with one thread we call the function
 * that the compiler made of the region. Outside of a team that thread is number 0 of 1 and gets all
 * of a static loop; a dynamic loop needs bookkeeping, by malloc, so kernels use none. Other
 * compilers' OpenMP has other names, and this file no effect.
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
