/*
 * device.h - where numbers are stored and what computes on them: this CPU, or one GPU; and the
 * table of operations, layer by layer, that the devices plain, cpu and cuda implement.
 */
#ifndef COMMON_NN_DEVICE_H
#define COMMON_NN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/args.h"
#include "common/base/memory.h"
#include "common/data/dataloader.h"
#include "common/nn/kernel_types.h"

typedef struct Device {
    const char *name; // "plain", "cpu" or "cuda"
    const char *label; // "CPU" or "GPU", as in "[GPU0] Epoch 3"
    int local_rank; // as given to device_init
    MemoryLocation place; // where its memory is
    int threads; // compute threads of the CPU
    int shards; // of the current batch: gradients of row i are summed in part i % shards, then
                // the parts as a tree (args_shards); 0: in any order. The model sets it.
    Amp amp;
    bool tf32; // products of float32 on tensor cores
    bool replaying; // see begin_step
    LossScale *loss_scale; // device memory; NULL: gradients are not scaled
    const struct DeviceOps *ops; // the kernels: plain.c, extras/fast_cpu or cuda
    void *state; // the device's own
} Device;

typedef enum { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE } CopyKind;

/* Opens the device args->device asks for, in the precision of args->amp and tf32; of several GPUs
 * the local_rank-th (with tcp and mpi, where ranks may share, they wrap around), or the only one
 * this process sees. Local. Usage error if the machine or this build has no such device, and on a
 * GPU if args ask for a fixed order of sums. The struct must not be moved: its place points into
 * it. */
void device_init(Device *device, const Args *args, int local_rank);
void device_free(Device *device);

/* Ranks that share this machine, as far as this process can know. */
int device_local_ranks(const Args *args);

/* How many ranks suit this machine: its GPUs, else 2. Touches no device, so the caller may still
 * fork. */
int device_count(const Args *args);

/* Device memory, zeroed, aligned to at least 64 bytes. Dies when there is none. */
void *device_malloc(Device *device, size_t bytes);
void device_release(Device *device, void *memory);

/* Copies in the order of the device's work; a copy to the host returns when done. */
void device_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind);

/* Selects a dropout mask, which depends on these and a unit's index, not on ranks or threads. Unit
 * u of row r, in the order of memory, is dropped if byte u % 16 (little-endian) of
 *     philox({ u / 16, first_row + r * row_stride, layer, step }, { low, high half of seed })
 * is less than 256 p. All devices keep the channels of an image last, so they draw the same
 * masks. */
typedef struct {
    uint64_t seed, step; // only the low 32 bits of step are used
    int layer;
    int first_row, row_stride; // of the batch's rows in the group's batch
    float p; // share of units dropped, n / 256; the others are multiplied by 1 / (1 - p)
} DropoutKey;

/* The loss scale as text, for a checkpoint: "65536 7 2" is the scale, the good steps since it
 * changed, and the steps skipped. False: the device has none. */
enum { LOSS_SCALE_TEXT_BYTES = 64 };
bool loss_scale_save(Device *device, char text[LOSS_SCALE_TEXT_BYTES]);

/* Without `import` only checks the text, which comes from outside. False: it cannot come from a run
 * of `step` steps. True without doing anything on a device without a loss scale. */
bool loss_scale_load(Device *device, const char *text, uint64_t step, bool import);

/* An optimizer over flat arrays, by PyTorch's formulas. */
typedef enum { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADAMW, OPTIM_ADADELTA } OptimKind;
typedef struct {
    OptimKind kind;
    double lr, momentum, weight_decay;
    float *state[2]; // momentum_buffer or NULL; exp_avg, exp_avg_sq; or square_avg, acc_delta
} OptimRule;

/* The table, used by the files of this room only. Arrays are device memory, dense, one row after
 * the other. All devices store an image, and each filter of a convolution, as rows, columns,
 * channels (HWC), so that a line of the window under a filter is contiguous. Calls may return
 * before the work is done; all work of a device is done in the order of the calls. */
typedef struct DeviceOps {
    void *(*malloc)(Device *device, size_t bytes);
    void (*release)(Device *device, void *memory);
    void (*copy)(Device *device, void *to, const void *from, size_t bytes, CopyKind kind);
    void (*synchronize)(Device *device); // waits for all work queued so far
    void (*free)(Device *device); // the device's own state

    // The rows a batch names, normalised: inputs [n][features], labels [n] or targets [n].
    void (*gather)(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                   float *targets);

    // Reserve memory for kernels, which a GPU cannot allocate between them: called for the rows of
    // a batch, for each convolution and each linear layer when a model is made. NULL on a CPU.
    void (*gather_reserve)(Device *device, int max_batch, int features);
    void (*conv_reserve)(Device *device, ConvShape shape);
    void (*linear_reserve)(Device *device, int max_batch, int in, int out);

    // Called before a training step's forward pass and after its optimizer; `step`: optimizer steps
    // taken before. While extras/cuda_graph replays a whole step, which it launches through
    // `replay`, `replaying` is true, and nothing else may be queued on the device. Mostly NULL.
    void (*begin_step)(Device *device, const Batch *batch, uint64_t step);
    void (*end_step)(Device *device);
    void (*replay)(Device *device);

    // y = relu(conv(x) + bias); then, unless argmax is NULL, pooled: the largest of each 2 x 2, its
    // place in argmax (a byte for each pooled unit, and [n][out_channels][size / 2 squared] of
    // them). Relu and pooling pass a nan on, as PyTorch's do: otherwise a failed training would
    // still report a loss.
    void (*conv_relu)(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                      const float *bias, float *y, uint8_t *argmax);

    // Their gradients. dy is the gradient after relu, pooling and dropout, y their output: a unit
    // contributed unless y <= 0 (nan did), and its gradient is multiplied by `scale`, as dropout
    // multiplied the unit. dy is overwritten. argmax is NULL where there was no pooling. Adds to
    // dweight and dbias; writes dx unless it is NULL.
    void (*conv_grad)(Device *device, ConvShape shape, int n, const float *x, const float *y,
                      const uint8_t *argmax, const float *weight, float scale, float *dy,
                      float *dweight, float *dbias, float *dx);

    // y[n][out] = x[n][in] weight[out][in]^T + bias, and relu on request.
    void (*linear)(Device *device, int n, int in, int out, bool relu, const float *x,
                   const float *weight, const float *bias, float *y);
    // dy = y <= 0 ? 0 : dy * scale, the gradient of relu and dropout, in place.
    void (*relu_grad)(Device *device, size_t count, const float *y, float scale, float *dy);
    // The parameters' gradients come first, so that they can be sent while the input's is computed.
    void (*linear_grad_params)(Device *device, int n, int in, int out, const float *x,
                               const float *dy, float *dweight, float *dbias); // adds
    void (*linear_grad_input)(Device *device, int n, int in, int out, const float *dy,
                              const float *weight, float *dx); // writes

    // Sets units of y[n][features] to 0 at random and scales the rest, in place.
    void (*dropout)(Device *device, int n, int features, DropoutKey key, float *y);

    // stats[0] = mean loss, stats[1] = rows whose largest logit is the label's.
    void (*nll)(Device *device, int n, int classes, const float *logits, const int32_t *labels,
                float *log_probs, float *stats); // log_softmax and nll_loss
    void (*nll_grad)(Device *device, int n, int classes, const float *log_probs,
                     const int32_t *labels, float *dlogits);
    void (*mse)(Device *device, int n, const float *y, const float *targets, float *stats);
    void (*mse_grad)(Device *device, int n, const float *y, const float *targets, float *dy);

    void (*zero)(Device *device, float *array, size_t count);

    // torch.nn.utils.clip_grad_norm_: multiplies the gradients by max_norm / (norm + 1e-6) if that
    // is less than 1. With a loss scale the norm is that of the gradients divided by it.
    void (*clip_grads)(Device *device, size_t count, float *grads, float max_norm);

    // The rate is lr times the schedule's factor. With a loss scale it skips the step if necessary,
    // updates the scale, and divides the gradients by it. A step that is not skipped and leaves
    // numbers that are not finite is recorded in step.divergence.
    void (*optim)(Device *device, size_t count, float *params, const float *grads,
                  const OptimRule *rule, OptimStep step);
} DeviceOps;

/* The three devices: plain.c, extras/fast_cpu and cuda. Each init opens its device and sets its
 * table; cuda's also picks the GPU. Without extras/fast_cpu "cpu" means plain; without CUDA
 * device_cuda_absent.c reports that this build has none. */
extern const DeviceOps device_cuda_ops;
void device_plain_init(Device *device);
void device_cpu_init(Device *device);
void device_cuda_init(Device *device, const Args *args);
void cuda_graph_init(Device *device); // --cuda-graph on: extras/cuda_graph changes the table

#endif
