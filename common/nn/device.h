/* device.h - where numbers are stored and what computes on them: this CPU, or one GPU; and the
 * table of operations, layer by layer, that the devices plain, cpu and cuda implement. */
#ifndef COMMON_NN_DEVICE_H
#define COMMON_NN_DEVICE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/args.h"
#include "common/base/divergence.h"
#include "common/base/memory.h"
#include "common/data/dataloader.h"

/* Down to ConvShape all is for C and for the GPU's kernels. */
#ifdef __CUDACC__
#define KERNEL_INLINE static inline __host__ __device__
#else
#define KERNEL_INLINE static inline
#endif

/* Mixed precision: the type of each kind of number (--amp off, bf16 or fp16).
 *
 *     float32 always    weights, gradients, optimizer states, activations, sums, biases, relu,
 *                       pooling, dropout, softmax, loss; products too small to benefit: the first
 *                       convolution (one channel, 9 weights a filter), linear layers of fewer than
 *                       32 outputs
 *     bf16 or fp16      the operands of all other matrix products: inputs, weights and output
 *                       gradients of convolutions and linear layers, rounded on input; and on
 *                       a GPU what the gradient of a convolution's input is summed from
 *
 * Products accumulate in float32. On a CPU, which has bf16 only, a convolution's backward pass is
 * float32, and so is its forward pass without pooling. torch.autocast also rounds small products,
 * and keeps activations short, as --conv cudnn does; inputs and logits stay float32. */

/* The dynamic loss scale of fp16 (torch.amp.GradScaler): small gradients would vanish in a type
 * whose smallest number is 6e-8, so the loss is multiplied by `scale`, and the optimizer divides. A
 * step with gradients that are not finite is skipped and halves it; 2,000 good ones double it. */
typedef struct {
    float scale;
    float unscale; // factor for this step's gradients; 0: skip the step
    int32_t good_steps; // since the scale last changed
    uint32_t skipped; // steps skipped so far; Adam does not count them
    int32_t skipped_in_a_row;
} LossScale;

/* The learning rate of each step (--lr-schedule, --warmup-steps) depends only on the step's number:
 * a resumed run needs nothing else, and neither does a kernel of a recorded graph. In PyTorch's
 * words, with scheduler.step() after each optimizer step:
 *
 *     warmup = LinearLR(optimizer, start_factor=1 / (warmup_steps + 1), total_iters=warmup_steps)
 *     step   = StepLR(optimizer, step_size=steps_per_epoch, gamma=0.7), as PyTorch's MNIST example
 *     cosine = CosineAnnealingLR(optimizer, T_max=total_steps - warmup_steps)
 *     SequentialLR(optimizer, [warmup, step or cosine], milestones=[warmup_steps]) */
typedef struct {
    LrScheduleKind kind;
    uint64_t warmup_steps;
    uint64_t steps_per_epoch, total_steps; // for all --epochs, whatever --max-steps is
} LrSchedule;

/* Returns the factor of --lr in a step; steps are counted from 1. */
KERNEL_INLINE double lr_factor(const LrSchedule *schedule, uint64_t step)
{
    const uint64_t taken = step - 1, warmup = schedule->warmup_steps;
    if (taken < warmup)
        return (double)step / (double)(warmup + 1);
    if (schedule->kind == LR_STEP)
        return pow(0.7, (double)((taken - warmup) / schedule->steps_per_epoch));
    if (schedule->kind == LR_COSINE && taken >= schedule->total_steps)
        return 0;
    if (schedule->kind == LR_COSINE)
        return 0.5 + 0.5 * cos(3.14159265358979323846 * (double)(taken - warmup) /
                               (double)(schedule->total_steps - warmup));
    return 1;
}

/* What an optimizer needs to know about its step. */
typedef struct {
    uint64_t number; // counted from 1
    const float *loss; // device memory
    Divergence *divergence; // device memory, set by the pass over the weights; NULL if not recorded
    LrSchedule schedule; // for lr; all 0: constant
} OptimStep;

/* An optimizer over flat arrays, by PyTorch's formulas. */
typedef struct {
    OptimKind kind;
    double lr, momentum, weight_decay;
    float *state[2]; // momentum_buffer or NULL; exp_avg, exp_avg_sq; or square_avg, acc_delta
} OptimRule;

/* Computes Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128
 * random bits that depend on counter and key only, so any rank and any thread can compute the n-th
 * number without those before it. Inline, so that a loop over counters vectorises. */
KERNEL_INLINE void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t random[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u; // the golden ratio
        k1 += 0xBB67AE85u; // the square root of 3, less 1
    }
    random[0] = c0;
    random[1] = c1;
    random[2] = c2;
    random[3] = c3;
}

/* A convolution with a square kernel, stride 1, no padding: out = in - kernel + 1. */
typedef struct {
    int in_channels, in_size; // images of in_size x in_size
    int out_channels, kernel;
} ConvShape;

static inline int conv_out_size(ConvShape shape)
{
    return shape.in_size - shape.kernel + 1;
}

static inline int conv_filter_numel(ConvShape shape) // weights of one output channel
{
    return shape.kernel * shape.kernel * shape.in_channels;
}

typedef struct Device {
    const char *name; // "plain", "cpu" or "cuda"
    const char *label; // "CPU" or "GPU", as in "[GPU0] Epoch 3"
    int local_rank; // as given to device_init
    MemoryLocation place; // where its memory is
    int threads; // compute threads of the CPU
    int shards; // the current batch's: gradients of row i are summed in part i % shards, then
                // the parts as a tree (args_shards); 0: in any order. The model sets it.
    Amp amp;
    bool tf32; // products of float32 on tensor cores
    bool replaying; // see begin_step
    LossScale *loss_scale; // device memory; NULL if gradients are not scaled
    const struct DeviceOps *ops; // the kernels: plain.c, extras/fast_cpu or cuda
    void *state; // the device's own data
} Device;

typedef enum { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE } CopyKind;

/* Opens the device that args ask for; of several GPUs the local_rank-th (with tcp and mpi, where
 * ranks may share, they wrap around), or the only one this process sees. Local. Usage error if
 * none can do what args ask. The struct must not be moved: its place points into it. */
void device_init(Device *device, const Args *args, int local_rank);
void device_free(Device *device);

/* Returns how many ranks share this machine, as far as this process can know. */
int device_local_ranks(const Args *args);

/* Returns how many ranks suit this machine: its GPUs, else 2. Opens none: the caller may fork. */
int device_count(const Args *args);

/* Selects a dropout mask, which depends on these and a unit's index, not on ranks or threads. Unit
 * u of row r, in the order of memory, is dropped if byte u % 16 (little-endian) of
 *     philox({ u / 16, first_row + r * row_stride, layer, step }, { low, high half of seed })
 * is less than 256 p. So all devices draw the same masks. */
typedef struct {
    uint64_t seed, step; // only the low 32 bits of step are used
    int layer;
    int first_row, row_stride; // place of the batch's rows in the group's batch
    float p; // share of units dropped, n / 256; the others are multiplied by 1 / (1 - p)
} DropoutKey;

/* Writes the loss scale as text, for a checkpoint: "65536 7 2" is the scale, the good steps since
 * it changed, and the steps skipped. Returns false if the device has none. */
enum { LOSS_SCALE_TEXT_BYTES = 64 };
bool loss_scale_save(Device *device, char text[LOSS_SCALE_TEXT_BYTES]);

/* Loads the text, which comes from outside; without `import` only checks it. False if it cannot
 * come from a run of `step` steps. True without doing anything on a device without a loss scale. */
bool loss_scale_load(Device *device, const char *text, uint64_t step, bool import);

/* The table, used by the files of this room only. Arrays are device memory, dense, row after row.
 * All devices store an image, and each filter of a convolution, as rows, columns, channels (HWC),
 * so a line of a window is contiguous. Work is done in the order of the calls, maybe later. */
typedef struct DeviceOps {
    void *(*malloc)(Device *device, size_t bytes);
    void (*release)(Device *device, void *memory);
    void (*copy)(Device *device, void *to, const void *from, size_t bytes, CopyKind kind);
    void (*synchronize)(Device *device); // waits for all work queued so far; NULL on a CPU
    void (*free)(Device *device); // frees the device's own state

    // Gathers the rows a batch names, normalised: inputs [n][features], labels [n] or targets [n].
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
    // place in argmax, a byte for each pooled unit. Relu and pooling pass a nan on, as PyTorch's
    // do: otherwise a failed training would still report a loss.
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

/* Allocates device memory, zeroed, aligned to at least 64 bytes. Dies if there is not enough. */
static inline void *device_malloc(Device *device, size_t bytes)
{
    return device->ops->malloc(device, bytes);
}

static inline void device_release(Device *device, void *memory)
{
    device->ops->release(device, memory);
}

/* Copies in the order of the device's work; a copy to the host returns when done. */
static inline void device_copy(Device *device, void *to, const void *from, size_t bytes,
                               CopyKind kind)
{
    device->ops->copy(device, to, from, bytes, kind);
}

/* Each opens its device and sets its table; cuda's also picks the GPU. Without extras/fast_cpu
 * "cpu" means plain; without CUDA nn_no_cuda.c reports that this build has none. */
void device_plain_init(Device *device);
void device_cpu_init(Device *device);
void plain_bf16_init(Device *device); // --amp bf16: extras/fast_cpu changes the plain device
void device_cuda_init(Device *device, const Args *args);
void conv_cudnn_init(Device *device); // --conv cudnn: extras/cudnn changes the table
void cuda_graph_init(Device *device); // --cuda-graph on: so does extras/cuda_graph, after it

#endif
