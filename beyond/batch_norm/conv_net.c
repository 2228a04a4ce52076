/*
 * The network as two blocks and a linear layer. A block keeps its results for the backward pass,
 * which writes the gradient of the block's output to doutput, and then overwrites it with the
 * gradient of each earlier layer.
 */
#include "beyond/batch_norm/conv_net.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/host.h"
#include "common/base/log.h"

enum { IMAGE = 28, CLASSES = 10 };

static const int channels_of[] = { 1, 8, 16 }; // channels of the image and of each block
static const char *const parameter_names[] = { "conv1.weight", "bn1.weight", "bn1.bias",
                                               "conv2.weight", "bn2.weight", "bn2.bias",
                                               "fc.weight",    "fc.bias" };
static const char *const buffer_names[] = { "bn1.running_mean", "bn1.running_var",
                                            "bn2.running_mean", "bn2.running_var" };

static void refuse(bool given, const char *option)
{
    if (given)
        usage_error("%s: this aside trains one network of its own, with sgd, in float32; leave it "
                    "out",
                    option);
}

static void print_what_is_refused(void)
{
    log_print("One network of its own, with sgd, in float32. So these are refused:");
    log_print("--model linear or mlp, --dataset random, --optimizer but sgd, --cuda-graph,");
    log_print("--amp, --init-from, --metrics-dir, --lr-schedule, --warmup-steps, --clip-norm.");
    log_print("%s", "");
}

void conv_net_parse_args(Args *args, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0)
            print_what_is_refused();
    args_parse(args, STEP_SPAWN, argc, argv);
    refuse(args->model != MODEL_CNN, "--model");
    refuse(args->dataset == DATASET_RANDOM, "--dataset random");
    refuse(args->optimizer != OPTIM_SGD, "--optimizer");
    refuse(args->cuda_graph, "--cuda-graph");
    refuse(args->amp != AMP_OFF, "--amp");
    refuse(args->init_from != NULL, "--init-from");
    refuse(args->metrics_dir != NULL, "--metrics-dir");
    refuse(args->lr_schedule != LR_CONSTANT, "--lr-schedule");
    refuse(args->warmup_steps > 0, "--warmup-steps");
    refuse(args->clip_norm > 0, "--clip-norm");
    const bool is_auto = args->device == DEVICE_AUTO;
    if (args->device == DEVICE_CPU || (is_auto && gpus_count() == 0))
        args->device = DEVICE_PLAIN;
}

/* Appends a slice to an array of *numel floats. */
static Tensor slice(const char *name, int ndim, const size_t shape[], size_t *numel)
{
    Tensor tensor = { .name = name, .ndim = ndim, .offset = *numel, .numel = 1 };
    for (int i = 0; i < ndim; i++) {
        tensor.shape[i] = shape[i];
        tensor.numel *= shape[i];
    }
    *numel += tensor.numel;
    return tensor;
}

/* Lists parameters and buffers, and makes their arrays. */
static void place_arrays(ConvNet *net)
{
    Tensor *parameter = net->parameter, *buffer = net->buffer;
    for (int b = 0; b < NET_BLOCKS; b++) {
        const size_t in = (size_t)channels_of[b], out = (size_t)channels_of[b + 1];
        const char *const *names = &parameter_names[3 * b];
        *parameter++ = slice(names[0], 4, (size_t[]){ out, in, KERNEL, KERNEL }, &net->numel);
        *parameter++ = slice(names[1], 1, &out, &net->numel);
        *parameter++ = slice(names[2], 1, &out, &net->numel);
        for (int i = 0; i < 2; i++)
            *buffer++ = slice(buffer_names[2 * b + i], 1, &out, &net->buffers_numel);
    }
    const size_t features = (size_t)conv_out_numel(&net->block[NET_BLOCKS - 1].conv);
    *parameter++ = slice("fc.weight", 2, (size_t[]){ CLASSES, features }, &net->numel);
    *parameter++ = slice("fc.bias", 1, (size_t[]){ CLASSES }, &net->numel);

    net->params = device_malloc(net->device, net->numel * sizeof(float));
    net->grads = device_malloc(net->device, net->numel * sizeof(float));
    net->momentum_buffer = device_malloc(net->device, net->numel * sizeof(float));
    net->buffers = device_malloc(net->device, net->buffers_numel * sizeof(float));
    net->num_batches_tracked = device_malloc(net->device, NET_BLOCKS * sizeof(int64_t));
    net->stats = device_malloc(net->device, 2 * sizeof *net->stats);
    net->divergence = device_malloc(net->device, sizeof *net->divergence);
}

static void block_init(ConvNet *net, int b)
{
    Block *block = &net->block[b];
    const Tensor *parameter = &net->parameter[3 * b], *buffer = &net->buffer[2 * b];
    block->conv.weight = net->params + parameter[0].offset;
    block->conv.dweight = net->grads + parameter[0].offset;
    block->norm = (BatchNorm){ .channels = block->conv.channels,
                               .size = block->conv.size,
                               .weight = net->params + parameter[1].offset,
                               .bias = net->params + parameter[2].offset,
                               .dweight = net->grads + parameter[1].offset,
                               .dbias = net->grads + parameter[2].offset,
                               .running_mean = net->buffers + buffer[0].offset,
                               .running_var = net->buffers + buffer[1].offset,
                               .num_batches_tracked = &net->num_batches_tracked[b] };
    batch_norm_init(&block->norm, net->device);
    const size_t bytes = sizeof(float) * net->max_batch * conv_out_numel(&block->conv);
    block->convolved = device_malloc(net->device, bytes);
    block->output = device_malloc(net->device, bytes);
    block->doutput = device_malloc(net->device, bytes);
}

/* Draws them as PyTorch does: weights and biases of convolutions and linear layers are uniform, a
 * batch norm begins as the identity, with mean 0 and variance 1. */
static void draw_weights(ConvNet *net, Rng *rng)
{
    float params[net->numel], buffers[net->buffers_numel];
    double fan_in = 0; // fan-in of the parameter's layer
    for (int i = 0; i < NET_PARAMETERS; i++) {
        const Tensor *p = &net->parameter[i];
        const bool is_norm = strncmp(p->name, "bn", 2) == 0, is_weight = p->ndim > 1;
        fan_in = is_weight ? (double)(p->numel / p->shape[0]) : fan_in;
        const double bound =
            is_weight ? sqrt(3.0) * (sqrt(2.0 / 6.0) / sqrt(fan_in)) : 1 / sqrt(fan_in);
        for (size_t k = 0; k < p->numel; k++)
            params[p->offset + k] = is_norm ? strstr(p->name, "weight") != NULL
                                            : rng_uniform_between(rng, (float)-bound, (float)bound);
    }
    for (int i = 0; i < NET_BUFFERS; i++)
        for (size_t k = 0; k < net->buffer[i].numel; k++)
            buffers[net->buffer[i].offset + k] = strstr(net->buffer[i].name, "var") != NULL;
    device_copy(net->device, net->params, params, sizeof params, COPY_TO_DEVICE);
    device_copy(net->device, net->buffers, buffers, sizeof buffers, COPY_TO_DEVICE);
}

void conv_net_init(ConvNet *net, const Args *args, int max_batch, Rng *rng, Device *device)
{
    const int most = dataset_max_rows(args);
    *net = (ConvNet){ .device = device,
                      .max_batch = max_batch < most ? max_batch : most,
                      .training = true };
    int size = IMAGE;
    for (int b = 0; b < NET_BLOCKS; b++) {
        Conv *conv = &net->block[b].conv;
        *conv = (Conv){ .in_channels = channels_of[b], .in_size = size };
        size = (size - KERNEL) / STRIDE + 1;
        conv->channels = channels_of[b + 1];
        conv->size = size;
    }
    place_arrays(net);
    for (int b = 0; b < NET_BLOCKS; b++)
        block_init(net, b);
    const Tensor *weight = &net->parameter[NET_PARAMETERS - 2], *bias = weight + 1;
    net->fc_weight = net->params + weight->offset;
    net->fc_bias = net->params + bias->offset;
    net->dfc_weight = net->grads + weight->offset;
    net->dfc_bias = net->grads + bias->offset;

    const size_t rows = (size_t)net->max_batch;
    net->inputs = device_malloc(device, rows * IMAGE * IMAGE * sizeof(float));
    net->labels = device_malloc(device, rows * sizeof(int32_t));
    net->logits = device_malloc(device, rows * CLASSES * sizeof(float));
    net->dlogits = device_malloc(device, rows * CLASSES * sizeof(float));
    net->log_probs = device_malloc(device, rows * CLASSES * sizeof(float));
    if (device->ops->gather_reserve != NULL)
        device->ops->gather_reserve(device, net->max_batch, IMAGE * IMAGE);
    if (device->ops->linear_reserve != NULL)
        device->ops->linear_reserve(device, net->max_batch, (int)weight->shape[1], CLASSES);
    draw_weights(net, rng);
}

void conv_net_free(ConvNet *net)
{
    for (Block *block = net->block; block < net->block + NET_BLOCKS; block++) {
        batch_norm_free(&block->norm, net->device);
        device_release(net->device, block->convolved);
        device_release(net->device, block->output);
        device_release(net->device, block->doutput);
    }
    void *const arrays[] = {
        net->params, net->grads,     net->momentum_buffer, net->buffers, net->num_batches_tracked,
        net->inputs, net->labels,    net->logits,          net->dlogits, net->log_probs,
        net->stats,  net->divergence
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        device_release(net->device, arrays[i]);
}

/* ---- what a process group adds ---- */

void conv_net_convert_sync_batch_norm(ConvNet *net, ProcessGroup *pg)
{
    for (int b = 0; b < NET_BLOCKS; b++)
        net->block[b].norm.pg = pg;
}

void conv_net_broadcast_buffers(ConvNet *net, ProcessGroup *pg)
{
    broadcast(pg, net->buffers, net->buffers_numel, FLOAT32, 0);
    broadcast(pg, net->num_batches_tracked, NET_BLOCKS, INT64, 0);
}

double conv_net_buffer_spread(const ConvNet *net, ProcessGroup *pg)
{
    const size_t bytes = net->buffers_numel * sizeof(float);
    float high[net->buffers_numel], low[net->buffers_numel];
    device_copy(net->device, high, net->buffers, bytes, COPY_TO_HOST);
    memcpy(low, high, bytes);
    all_reduce(pg, high, net->buffers_numel, FLOAT32, REDUCE_MAX);
    all_reduce(pg, low, net->buffers_numel, FLOAT32, REDUCE_MIN);
    double most = 0;
    for (size_t i = 0; i < net->buffers_numel; i++)
        if ((double)high[i] - (double)low[i] > most) // gcc 12 for ARM cannot compile fmax here
            most = (double)high[i] - (double)low[i];
    return most;
}

/* ---- the passes ---- */

static size_t output_numel(const Block *block, int n)
{
    return (size_t)n * conv_out_numel(&block->conv);
}

void conv_net_forward(ConvNet *net, const Batch *batch)
{
    const int n = net->batch_size = batch->size;
    CHECK(n > 0 && n <= net->max_batch, "a batch of %d rows for a net made for 1 to %d", n,
          net->max_batch);
    const DeviceOps *ops = net->device->ops;
    const LayerOps *layers = layer_ops(net->device);
    ops->gather(net->device, batch, net->inputs, net->labels, NULL);

    const float *in = net->inputs;
    for (Block *block = net->block; block < net->block + NET_BLOCKS; block++) {
        layers->conv(net->device, &block->conv, n, in, block->convolved);
        batch_norm_forward(&block->norm, n, net->training, block->convolved, block->output);
        layers->relu(net->device, output_numel(block, n), block->output);
        in = block->output;
    }
    const int features = (int)output_numel(&net->block[NET_BLOCKS - 1], 1);
    ops->linear(net->device, n, features, CLASSES, false, in, net->fc_weight, net->fc_bias,
                net->logits);
    ops->nll(net->device, n, CLASSES, net->logits, net->labels, net->log_probs, net->stats);
}

/* Marks the gradients of parameters [first, last] as ready. */
static void mark_ready(Reducer *reducer, int first, int last)
{
    for (int i = last; i >= first; i--)
        reducer_mark_ready(reducer, i);
}

void conv_net_backward(ConvNet *net, Reducer *reducer)
{
    const int n = net->batch_size;
    const DeviceOps *ops = net->device->ops;
    const LayerOps *layers = layer_ops(net->device);
    Block *last = &net->block[NET_BLOCKS - 1];
    const int features = (int)output_numel(last, 1);
    ops->zero(net->device, net->grads, net->numel);
    ops->nll_grad(net->device, n, CLASSES, net->log_probs, net->labels, net->dlogits);
    ops->linear_grad_params(net->device, n, features, CLASSES, last->output, net->dlogits,
                            net->dfc_weight, net->dfc_bias);
    mark_ready(reducer, NET_PARAMETERS - 2, NET_PARAMETERS - 1);
    ops->linear_grad_input(net->device, n, features, CLASSES, net->dlogits, net->fc_weight,
                           last->doutput);

    for (int b = NET_BLOCKS - 1; b >= 0; b--) {
        Block *block = &net->block[b];
        ops->relu_grad(net->device, output_numel(block, n), block->output, 1, block->doutput);
        batch_norm_backward(&block->norm, n, block->convolved, block->doutput, block->doutput);
        layers->conv_grad_weight(net->device, &block->conv, n,
                                 b > 0 ? block[-1].output : net->inputs, block->doutput);
        if (b > 0) // images need no gradient
            layers->conv_grad_input(net->device, &block->conv, n, block->doutput,
                                    block[-1].doutput);
        mark_ready(reducer, 3 * b, 3 * b + 2);
    }
}

void conv_net_step(ConvNet *net, const Args *args)
{
    net->step++;
    net->device->ops->optim(
        net->device, net->numel, net->params, net->grads,
        &(OptimRule){ .kind = OPTIM_SGD,
                      .lr = args->lr,
                      .momentum = args->momentum,
                      .weight_decay = args->weight_decay,
                      .state = { net->momentum_buffer } },
        (OptimStep){ .number = net->step, .loss = net->stats, .divergence = net->divergence });
}

float conv_net_loss(const ConvNet *net)
{
    float loss;
    device_copy(net->device, &loss, net->stats, sizeof loss, COPY_TO_HOST);
    return isnan(loss) ? NAN : loss; // without a nan's sign
}

int conv_net_correct(const ConvNet *net)
{
    float stats[2];
    device_copy(net->device, stats, net->stats, sizeof stats, COPY_TO_HOST);
    return (int)stats[1];
}

Divergence conv_net_divergence(const ConvNet *net)
{
    Divergence divergence;
    device_copy(net->device, &divergence, net->divergence, sizeof divergence, COPY_TO_HOST);
    return divergence;
}
