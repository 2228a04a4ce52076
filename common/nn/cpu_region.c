/*
 * A parallel region of one thread is a call. GCC's OpenMP makes a team for it all the same: malloc,
 * semaphores, free, which takes longer than what the linear model computes there. So the linker
 * hands us the calls of GOMP_parallel (--wrap in the Makefile), and those of one thread go straight
 * to the function that the compiler has made of the region. Outside of a team the one thread is
 * number 0 of 1 and gets all of a static loop; of a dynamic one OpenMP keeps books, by malloc: so
 * kernels use none. Other compilers' OpenMP has other names, and this file no effect.
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
