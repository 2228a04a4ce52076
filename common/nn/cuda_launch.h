/* cuda_launch.h - how a kernel is started: LAUNCH(kernel, grid, block, stream, its arguments). */
#ifndef COMMON_NN_CUDA_LAUNCH_H
#define COMMON_NN_CUDA_LAUNCH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Dies, naming the kernel, if the launch before this call was refused. */
void cuda_check_launch(const char *file, int line, const char *kernel);

#ifdef __cplusplus
}
#endif

/* Whoever runs kernels elsewhere than on a GPU says how before this header is read. */
#ifndef LAUNCH
#define LAUNCH(kernel, grid, block, stream, ...) \
    do { \
        kernel<<<grid, block, 0, stream>>>(__VA_ARGS__); \
        cuda_check_launch(__FILE__, __LINE__, #kernel); \
    } while (0)
#endif

/* Blocks of `block` threads for `count` things, one thread for each. */
static inline unsigned cuda_blocks(size_t count, unsigned block)
{
    return (unsigned)((count + block - 1) / block);
}

#endif
