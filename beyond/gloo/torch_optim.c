/* The momentum's own pass (torch/optim/sgd.py: buf.mul_(momentum).add_(grad)), then the rest as
 * ever. */
#include "beyond/gloo/torch_optim.h"

#include <math.h>

#include "common/base/log.h"

static const DeviceOps *inner; // one per process
static DeviceOps wrapped;

static void optim_as_torch(Device *device, size_t count, float *params, const float *grads,
                           const OptimRule *rule, OptimStep step)
{
    OptimRule rest = *rule;
    float *buffer = rule->state[0];
    if (rule->kind == OPTIM_SGD && buffer != NULL) {
        const float momentum = (float)rule->momentum, decay = (float)rule->weight_decay;
        for (size_t i = 0; i < count; i++) {
            const float kept = momentum * buffer[i]; // rounded here
            buffer[i] = kept + fmaf(decay, params[i], grads[i]);
        }
        grads = buffer;
        rest.state[0] = NULL;
        rest.weight_decay = 0;
    }
    inner->optim(device, count, params, grads, &rest, step);
}

void torch_optim_init(Device *device, const Args *args)
{
    if (device->place.on_gpu)
        return;
    inner = device->ops;
    wrapped = *inner;
    wrapped.optim = optim_as_torch;
    device->ops = &wrapped;
    if (args->optimizer != OPTIM_SGD)
        log_warning("only sgd rounds as PyTorch's does: with another optimizer the weights of "
                    "ranks in C and in PyTorch differ in their last bits");
}
