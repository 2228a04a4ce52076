/* cuda_launch.h - how a kernel is started: LAUNCH(kernel, grid, block, stream, its arguments). */
#ifndef COMMON_NN_CUDA_CUDA_LAUNCH_H
#define COMMON_NN_CUDA_CUDA_LAUNCH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Dies, naming the kernel, if the last launch failed. */
void cuda_check_launch(const char *file, int line, const char *kernel);

#ifdef __cplusplus
}
#endif

/* A stand-in that runs kernels elsewhere than on a GPU defines it before. */
#ifndef LAUNCH
#define LAUNCH(kernel, grid, block, stream, ...) \
    do { \
        kernel<<<grid, block, 0, stream>>>(__VA_ARGS__); \
        cuda_check_launch(__FILE__, __LINE__, #kernel); \
    } while (0)
#endif

/* Number of blocks of `block` threads for `count` elements, a thread each. */
static inline unsigned cuda_blocks(size_t count, unsigned block)
{
    return (unsigned)((count + block - 1) / block);
}

#endif
