/* cnn_state.h - what a checkpoint saves of a run of the CNN, for the programs that time saving it.
 */
#ifndef BENCH_CNN_STATE_H
#define BENCH_CNN_STATE_H

#include <fcntl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/io/checkpoint.h"

typedef struct {
    Device device;
    Rng rng;
    Dataset dataset;
    Sampler sampler;
    Model model;
    Optimizer optim;
} CnnState;

static inline void cnn_state_init(CnnState *state, const Args *args)
{
    device_init(&state->device, args, 0);
    rng_seed(&state->rng, 0);
    dataset_init(&state->dataset, args, TRAIN, &state->rng);
    distributed_sampler_init(&state->sampler, state->dataset.size, 0, 1, true, false, 0);
    model_init(&state->model, args, args->batch_size, &state->rng, &state->device);
    optim_init(&state->optim, args, &state->model);
}

static inline void cnn_state_free(CnnState *state)
{
    optim_free(&state->optim);
    model_free(&state->model);
    sampler_free(&state->sampler);
    dataset_free(&state->dataset);
    device_free(&state->device);
}

/* Where to print results: standard output is closed to the lines that each checkpoint prints. */
static inline int results_alone(void)
{
    const int results = dup(STDOUT_FILENO);
    SYS_CHECK(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO));
    return results;
}

#endif
