/*
 * Rung 3, im2col and cuBLAS: a kernel writes the matrix of windows to memory, and NVIDIA's library
 * multiplies. Its tiles are better than ours, but the matrix has almost eight times the numbers of
 * the images, and goes to memory and back.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

extern "C" {
#include "common/base/log.h"
}

enum { BLOCK = 256 };

static __global__ void im2col(const float *x, float *columns)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    columns[i] = x[window_begin(i / DEPTH) + window_offset(i % DEPTH)];
}

void conv2_im2col(const Conv2 *conv)
{
    const int windows = conv->images * WINDOWS, blocks = conv->images * (WINDOWS * DEPTH / BLOCK);
    LAUNCH(im2col, blocks, BLOCK, conv->stream, conv->x, conv->columns);

    // cuBLAS is column-major: it sees our row-major matrices as their transposes.
    const float one = 1, zero = 0;
    const cublasStatus_t status =
        cublasSgemm(conv->blas, CUBLAS_OP_T, CUBLAS_OP_N, FILTERS, windows, DEPTH, &one,
                    conv->weight, DEPTH, conv->columns, DEPTH, &zero, conv->y, FILTERS);
    CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasSgemm: %s", cublasGetStatusString(status));
}
