/* cuda_state.h - what the files of the CUDA device share: its state, and their functions. */
#ifndef COMMON_NN_CUDA_CUDA_STATE_H
#define COMMON_NN_CUDA_CUDA_STATE_H

#include <cublas_v2.h>

#include "common/base/cuda.h"
#include "common/nn/cuda/cuda_kernels.h"

enum { CUDA_SETS = 8, CUDA_MAX_BUFFERS = 8 };

/* Device memory that is written repeatedly, from a ring of pinned buffers (cuda_feed.c). */
typedef struct {
    char *memory; // on the device; NULL: there is none yet
    int num_buffers, next;
    char *buffer[CUDA_MAX_BUFFERS]; // pinned
    cudaEvent_t copied[CUDA_MAX_BUFFERS]; // the buffer's last copy is done
} CudaUpload;

/* How batches get to the device; see cuda_feed.c. */
typedef struct {
    int max_batch, features;
    CudaUpload message; // int32_t: step_offset (cuda_step_offset), then the rows of the batch
    CudaUpload staged; // the rows themselves, of a set that is too large for the device
    CudaRows rows; // where they are
    struct {
        unsigned id; // of the data set
        CudaRows rows; // NULLs: it is too large for the device
    } set[CUDA_SETS]; // data sets that have been seen
    int num_sets;
} CudaFeed;

typedef struct {
    cudaStream_t stream; // all work of this device, in the order of the calls
    cublasHandle_t blas;
    void *workspace; // of cuBLAS
    char *scratch; // of one call; the next may overwrite it
    size_t scratch_bytes;
    CudaFeed feed;
    struct CudaGraph *graph; // of extras/cuda_graph; NULL without --cuda-graph
} CudaState;

static inline CudaState *cuda_state(const Device *device)
{
    return device->state;
}

static inline size_t amp_bytes(Amp amp) // of a number in a product
{
    return amp == AMP_OFF ? 4 : 2;
}

/* Scratch memory is reserved when a model is made, and cuda_scratch hands it out in aligned pieces;
 * it dies if more is requested than was reserved. Start with *used = 0. */
void cuda_scratch_reserve(Device *device, size_t bytes);
size_t cuda_scratch_piece(size_t bytes); // with the padding of a piece

/* C[rows][columns] = A B, or += on request; row after row, as all matrices here. */
typedef struct {
    int rows, columns, depth; // the sum runs over depth
    Amp amp; // type of A and B
    const void *a, *b;
    bool a_transposed; // A is stored as [depth][rows]
    bool b_transposed; // B is stored as [columns][depth]
    void *c;
    Amp c_amp; // type of C
    bool add;
} CudaProduct;

void cuda_product_init(Device *device);
void cuda_product_free(Device *device);
void cuda_product(const Device *device, const CudaProduct *product);

void cuda_feed_reserve(Device *device, int max_batch, int features);
/* The two halves of cuda_feed_gather: starts the copy of the batch; unpacks what was copied. */
void cuda_feed_send(Device *device, const Batch *batch, uint64_t step_offset);
void cuda_feed_receive(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                       float *targets);
void cuda_feed_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                      float *targets);
void cuda_feed_free(Device *device);

void cuda_conv_reserve(Device *device, ConvShape shape);
void cuda_conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                    const float *bias, float *y, uint8_t *argmax);
void cuda_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                    const uint8_t *argmax, const float *weight, float scale, float *dy,
                    float *dweight, float *dbias, float *dx);

void cuda_linear_reserve(Device *device, int max_batch, int in, int out);
void cuda_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                 const float *weight, const float *bias, float *y);
void cuda_linear_grad_params(Device *device, int n, int in, int out, const float *x,
                             const float *dy, float *dweight, float *dbias);
void cuda_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                            const float *weight, float *dx);

#endif
