/* cuda_state.h - what the files of the CUDA device share: its state, their functions, and the
 * kernels, which are C functions that launch them on a stream and return at once.
 *
 * Their pointers are device memory, in the layout that device.h describes. No kernel adds through
 * atomics: sums are trees whose shape follows from the sizes alone, so the same inputs give the
 * same bits. */
#ifndef COMMON_NN_CUDA_CUDA_STATE_H
#define COMMON_NN_CUDA_CUDA_STATE_H

#include <cublas_v2.h>

#ifdef __cplusplus
#define noreturn // C only; the headers below use it
extern "C" {
#endif

#include "common/base/cuda.h"
#include "common/nn/device.h"

enum { CUDA_SETS = 8, CUDA_MAX_BUFFERS = 8 };

/* Rows to gather from, of a data set or a staged batch: bytes, which `normalised`[256] maps to
 * floats, or floats; and for each row a 32-bit word, its label or target. */
typedef struct {
    const uint8_t *bytes; // [rows][features], or NULL
    const float *floats; // [rows][features], or NULL
    const float *normalised;
    const uint32_t *words;
} CudaRows;

/* Device memory that is written repeatedly, from a ring of pinned buffers (cuda_feed.c). */
typedef struct {
    char *memory; // on the device; NULL if there is none yet
    int num_buffers, next;
    char *buffer[CUDA_MAX_BUFFERS]; // pinned
    cudaEvent_t copied[CUDA_MAX_BUFFERS]; // when the buffer's last copy is done
} CudaUpload;

/* How batches get to the device; see cuda_feed.c. */
typedef struct {
    int max_batch, features;
    CudaUpload message; // int32_t: step_offset (cuda_step_offset), then the rows of the batch
    CudaUpload staged; // the rows themselves, of a set that is too large for the device
    CudaRows rows; // where the rows are
    struct {
        unsigned id; // the data set's
        CudaRows rows; // NULLs if it is too large for the device
    } set[CUDA_SETS]; // data sets that have been seen
    int num_sets;
} CudaFeed;

typedef struct {
    cudaStream_t stream; // all work of this device, in the order of the calls
    cudaStream_t aside; // a captured step's work that needs nothing that the step computes
    cudaEvent_t fork; // the captured step has begun; later: the work aside is done
    void *factors; // an optimizer step's; see cuda_optim.cu
    size_t chunk_bytes; // what a kernel writes and the next reads: half the L2 cache, or 8 MiB
    cublasHandle_t blas;
    void *workspace; // cuBLAS's
    char *scratch; // one call's; the next may overwrite it
    size_t scratch_bytes;
    CudaFeed feed;
    struct CudaGraph *graph; // extras/cuda_graph's; NULL without --cuda-graph
    struct Cudnn *cudnn; // extras/cudnn's; NULL without --conv cudnn
} CudaState;

static inline CudaState *cuda_state(const Device *device)
{
    return (CudaState *)device->state;
}

static inline size_t amp_bytes(Amp amp) // bytes of a number in a product
{
    return amp == AMP_OFF ? 4 : 2;
}

/* Scratch memory is reserved when a model is made, and cuda_scratch hands it out in aligned pieces;
 * it dies if more is requested than was reserved. Start with *used = 0. */
void cuda_scratch_reserve(Device *device, size_t bytes);
void *cuda_scratch(const Device *device, size_t *used, size_t bytes);
size_t cuda_scratch_piece(size_t bytes); // bytes with the padding of a piece

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
/* Returns the values in a product's type, rounded into scratch memory unless that is float32. */
const void *cuda_operand(Device *device, Amp amp, size_t *used, size_t count, const float *values);

void cuda_feed_reserve(Device *device, int max_batch, int features);
/* Starts the batch's copy: after this, the feed's message and rows locate it. */
void cuda_feed_send(Device *device, const Batch *batch, uint64_t step_offset);
void cuda_feed_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                      float *targets);
void cuda_feed_free(Device *device);
/* Returns how many steps after the recorded one this is, in device memory; 0 except in a replay. */
const int32_t *cuda_step_offset(const Device *device);

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

/* ---- kernels ---- */

/* Dies, naming the kernel, if the last launch failed. */
void cuda_check_launch(const char *file, int line, const char *kernel);

/* Sets inputs[i] and words[i] from row rows[i]. */
void cuda_gather(int n, int features, CudaRows from, const int32_t *rows, float *inputs,
                 uint32_t *words, cudaStream_t stream);

/* Rounds count numbers to the type that amp names. */
void cuda_round(size_t count, Amp amp, const float *from, void *to, cudaStream_t stream);

/* Writes each window under a filter as a row, in amp's type: columns[image][y][x][ky][kx][in]. */
void cuda_im2col(ConvShape shape, int images, Amp amp, const float *x, void *columns,
                 cudaStream_t stream);
/* Sets each pixel of x to the sum over all windows that contain it. */
void cuda_col2im(ConvShape shape, int images, Amp amp, const void *columns, float *x,
                 cudaStream_t stream);

/* Adds bias to y[rows][columns], then applies relu on request. */
void cuda_add_bias(size_t rows, int columns, bool relu, const float *bias, float *y,
                   cudaStream_t stream);
/* y = relu(largest of each 2 x 2 of z + bias), argmax = which; z is a convolution's product. */
void cuda_bias_relu_pool(ConvShape shape, int images, const float *z, const float *bias, float *y,
                         uint8_t *argmax, cudaStream_t stream);
/* Reverses that: dz, in amp's type, is dy at the unit that argmax names, and 0 elsewhere. */
void cuda_unpool(ConvShape shape, int images, Amp amp, const float *dy, const uint8_t *argmax,
                 void *dz, cudaStream_t stream);

/* A first convolution, of one channel under 3 x 3 filters, without a matrix of windows. Its
 * gradient adds to dweight and dbias, by way of partial[cuda_first_conv_parts(..)][out][9 + 1]. */
void cuda_first_conv(ConvShape shape, int n, const float *x, const float *weight, const float *bias,
                     float *y, cudaStream_t stream);
int cuda_first_conv_parts(ConvShape shape, int n);
void cuda_first_conv_grad(ConvShape shape, int n, const float *x, const float *y, float scale,
                          const float *dy, float *partial, float *dweight, float *dbias,
                          cudaStream_t stream);

/* sums[column] += the sum of the column, via partial[CUDA_SUM_PARTS][columns]. With y,
 * relu_grad is applied to dy first, in place. */
enum { CUDA_SUM_PARTS = 256 };
void cuda_sum_rows(size_t rows, int columns, const float *y, float scale, float *dy, float *partial,
                   float *sums, cudaStream_t stream);

/* Entries of the table that device.h describes. Gradients of the loss are multiplied by
 * device->loss_scale->scale unless that is NULL; then the optimizers decide from the gradients
 * whether to take the step, and set the scale of the next. */
void cuda_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy);
void cuda_dropout(Device *device, int n, int features, DropoutKey key, float *y);
void cuda_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
              float *log_probs, float *stats);
void cuda_nll_grad(Device *device, int n, int classes, const float *log_probs,
                   const int32_t *labels, float *dlogits);
void cuda_mse(Device *device, int n, const float *y, const float *targets, float *stats);
void cuda_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy);
enum { CUDA_OPTIM_PARTS = 256 }; // doubles of scratch memory that these may use
void cuda_clip_grads(Device *device, size_t count, float *grads, float max_norm);
void cuda_optim(Device *device, size_t count, float *params, const float *grads,
                const OptimRule *rule, OptimStep step);

#ifdef __cplusplus
}
#endif

#endif
