/* A fault affects its own rank only; the other ranks have to notice it. */
#include "05_fault_tolerance/checks/inject.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "05_fault_tolerance/snapshot_folder.h"
#include "common/base/host.h"
#include "common/base/log.h"

#define TOO_LARGE 1000.0f
#define PIECE ((size_t)1024) // floats
#define FLIPPED_BIT (UINT32_C(1) << 22) // the highest mantissa bit of a float

/* Flips a bit of always the same weight, the one in the middle. */
static void flip_bit(Model *model)
{
    uint32_t bits;
    float *weight = model->params + model->numel / 2;
    device_copy(model->device, &bits, weight, sizeof bits, COPY_TO_HOST);
    bits ^= FLIPPED_BIT;
    device_copy(model->device, weight, &bits, sizeof bits, COPY_TO_DEVICE);
}

/* Works piece by piece, because the gradient may be in GPU memory. */
static void enlarge(const Model *model, const Tensor *tensor)
{
    float piece[PIECE];
    for (size_t done = 0, count; done < tensor->numel; done += count) {
        const size_t rest = tensor->numel - done;
        count = rest < PIECE ? rest : PIECE;
        float *grads = model->grads + tensor->offset + done;
        device_copy(model->device, piece, grads, count * sizeof *piece, COPY_TO_HOST);
        for (size_t i = 0; i < count; i++)
            piece[i] *= TOO_LARGE;
        device_copy(model->device, grads, piece, count * sizeof *piece, COPY_TO_DEVICE);
    }
}

/* Corrupts a gradient, as the model's grad hook, before the Reducer learns that it is ready. */
static void corrupt_grad(void *context, int i)
{
    const Injector *injector = context;
    const Model *model = injector->model;
    for (int k = 0; k < injector->num_faults; k++) {
        const Fault *fault = &injector->fault[k];
        if (fault->kind == FAULT_CORRUPT_GRAD && fault->step == model->step + 1)
            enlarge(model, &model->parameter[i]);
    }
    if (injector->grad_hook != NULL)
        injector->grad_hook(injector->grad_hook_context, i);
}

void injector_init(Injector *injector, const Args *args, int rank, int world_size)
{
    *injector = (Injector){ 0 };
    for (const char *text = args->inject; text != NULL && *text != '\0'; text += *text == ',') {
        Fault fault;
        text = fault_parse(&fault, text);
        CHECK(text != NULL, "--inject %s was not checked", args->inject);
        if (fault.attempt != restart_count() + host_env_count("DDP_INCARNATION"))
            continue; // for another attempt, whose group may be smaller, or another process in it
        if (fault.rank >= world_size)
            usage_error("--inject %.80s: there is no rank %d, the last of %d is %d", args->inject,
                        fault.rank, world_size, world_size - 1);
        if (fault.rank == rank)
            injector->fault[injector->num_faults++] = fault;
    }
}

void injector_attach(Injector *injector, Model *model)
{
    injector->model = model;
    bool corrupts = false;
    for (int i = 0; i < injector->num_faults; i++)
        corrupts |= injector->fault[i].kind == FAULT_CORRUPT_GRAD;
    if (!corrupts)
        return;
    injector->grad_hook = model->grad_hook;
    injector->grad_hook_context = model->grad_hook_context;
    model_set_grad_hook(model, corrupt_grad, injector);
}

static void inject(const Injector *injector, const Fault *fault)
{
    const struct timespec nap = { fault->milliseconds / 1000,
                                  fault->milliseconds % 1000 * 1000000L };
    switch (fault->kind) {
    case FAULT_KILL:
        raise(SIGKILL);
        break;
    case FAULT_STOP:
        raise(SIGSTOP);
        break;
    case FAULT_EXIT:
        die("--inject exit: this rank gives up after step %" PRIu64, fault->step);
    case FAULT_SLOW:
        nanosleep(&nap, NULL);
        break;
    case FAULT_BITFLIP:
        flip_bit(injector->model);
        break;
    case FAULT_CORRUPT_GRAD: // done in the backward pass
        break;
    }
}

void injector_step(const Injector *injector)
{
    const uint64_t step = injector->model->step;
    for (int i = 0; i < injector->num_faults; i++) {
        const Fault *fault = &injector->fault[i];
        if (fault->step == step || (fault->kind == FAULT_SLOW && fault->step < step))
            inject(injector, fault);
    }
}
