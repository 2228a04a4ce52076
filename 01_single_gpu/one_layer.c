/*
 * 01_single_gpu, an aside - a layer small enough to be computed by hand: y = w1 x1 + w2 x2 + b.
 *
 * The kernels are those of the trainer. The layer is trained twice on one row: with the squared
 * error, and with the cross entropy, whose gradient on a single output is 0 whatever the weights.
 *
 *     make 01 && ./01_single_gpu/one_layer
 */
#include "common/base/log.h"
#include "common/base/words.h"
#include "common/nn/device.h"

enum { IN = 2, OUT = 1, ROWS = 1, STEPS = 3 };

typedef struct {
    float weight[IN], bias[OUT];
    float dweight[IN], dbias[OUT];
} Layer;

static const float x[IN] = { 1, 2 }, target[OUT] = { 1 };
static const int32_t label[ROWS] = { 0 }; // the only label of a single class
static const Layer start = { .weight = { 0.5f, -0.25f }, .bias = { 0.1f } };

static float squared_error(Device *device, const Layer *layer, float *y, float *dy)
{
    float stats[2];
    device->ops->linear(device, ROWS, IN, OUT, false, x, layer->weight, layer->bias, y);
    device->ops->mse(device, ROWS, y, target, stats);
    device->ops->mse_grad(device, ROWS, y, target, dy);
    return stats[0];
}

static float cross_entropy(Device *device, const Layer *layer, float *y, float *dy)
{
    float stats[2], log_probs[OUT];
    device->ops->linear(device, ROWS, IN, OUT, false, x, layer->weight, layer->bias, y);
    device->ops->nll(device, ROWS, OUT, y, label, log_probs, stats);
    device->ops->nll_grad(device, ROWS, OUT, log_probs, label, dy);
    return stats[0];
}

typedef float Loss(Device *device, const Layer *layer, float *y, float *dy);

static void train(Device *device, const char *name, Loss *loss_of)
{
    Layer layer = start;
    log_print("%s", name);
    for (int step = 1; step <= STEPS; step++) {
        float y[OUT], dy[OUT];
        const float loss = loss_of(device, &layer, y, dy);
        device->ops->zero(device, layer.dweight, IN);
        device->ops->zero(device, layer.dbias, OUT);
        device->ops->linear_grad_params(device, ROWS, IN, OUT, x, dy, layer.dweight, layer.dbias);
        log_print("  step %d: y %g, loss %g; gradients: y %g, w %g %g, b %g", step, y[0], loss,
                  dy[0], layer.dweight[0], layer.dweight[1], layer.dbias[0]);
        const OptimRule rule = { .kind = OPTIM_SGD, .lr = 0.1 };
        device->ops->optim(device, IN, layer.weight, layer.dweight, &rule, (OptimStep){ 0 });
        device->ops->optim(device, OUT, layer.bias, layer.dbias, &rule, (OptimStep){ 0 });
    }
    log_print("  weights: %g %g, bias %g", layer.weight[0], layer.weight[1], layer.bias[0]);
}

/* The gradient of w2 by the definition of a derivative: nudge it and see how the loss changes. */
static void nudge(Device *device)
{
    const float h = 0.001f;
    float y[OUT], dy[OUT];
    Layer up = start, down = start;
    up.weight[1] += h;
    down.weight[1] -= h;
    const double slope =
        ((double)squared_error(device, &up, y, dy) - (double)squared_error(device, &down, y, dy)) /
        (2 * (double)h);
    log_print("w2 nudged by %g: the loss changes by %.2f times as much", (double)h, slope);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 0,
                "Usage: 01_single_gpu/one_layer\n\n"
                "Trains a layer small enough to be computed by hand, and prints each step.\n");
    Args args;
    args_defaults(&args, "linear");
    args.device = DEVICE_CPU; // these few numbers lie in the host's memory
    Device device;
    device_init(&device, &args, 0);
    train(&device, "squared error", squared_error);
    train(&device, "cross entropy on one output", cross_entropy);
    nudge(&device);
    device_free(&device);
    return 0;
}
