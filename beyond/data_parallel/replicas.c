/*
 * Weights and gradients are copied in each step, since only the master's optimizer changes weights.
 * All of it goes through the memory of the host.
 */
#include "beyond/data_parallel/replicas.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/signals.h"

void replicas_init(Replicas *replicas, const Args *args, Model *master, int world_size,
                   int max_batch)
{
    CHECK(!master->device->place.on_gpu, "this aside adds up in host memory: --device cpu");
    *replicas = (Replicas){ .num_replicas = world_size, .fastest = INFINITY };
    replicas->replica = mem_calloc((size_t)world_size, sizeof *replicas->replica);
    replicas->replica[0].model = master;
    for (int i = 1; i < world_size; i++) {
        Replica *replica = &replicas->replica[i];
        Rng rng; // for weights that are overwritten in every step
        rng_seed(&rng, args->seed);
        device_init(&replica->device, args, i);
        model_init(&replica->own, args, max_batch, &rng, &replica->device);
        replica->model = &replica->own;
    }
}

void replicas_free(Replicas *replicas)
{
    for (int i = 1; i < replicas->num_replicas; i++) {
        model_free(&replicas->replica[i].own);
        device_free(&replicas->replica[i].device);
    }
    free(replicas->replica);
}

void replicas_scatter(Replicas *replicas, const Batch *batch)
{
    int start = 0;
    replicas->batch_size = batch->size;
    for (int i = 0; i < replicas->num_replicas; i++) {
        const int end = (int)((int64_t)batch->size * (i + 1) / replicas->num_replicas);
        Batch *share = &replicas->replica[i].share;
        *share = *batch;
        share->index = batch->index + start;
        share->size = end - start;
        share->first_row = batch->first_row + start * batch->row_stride;
        start = end;
    }
}

void replicas_replicate(Replicas *replicas)
{
    const Model *master = replicas->replica[0].model;
    replicas->begun = seconds_now();
    for (int i = 0; i < replicas->num_replicas; i++) {
        Model *model = replicas->replica[i].model;
        model_zero_grad(model);
        model->step = master->step;
        if (i == 0)
            continue;
        const size_t bytes = master->numel * sizeof(float);
        device_copy(model->device, model->params, master->params, bytes, COPY_ON_DEVICE);
        replicas->moved_bytes += bytes;
    }
}

static void *forward_and_backward(void *argument)
{
    Replica *replica = argument;
    if (replica->share.size == 0)
        return NULL;
    model_forward(replica->model, &replica->share);
    model_backward(replica->model);
    return NULL;
}

void replicas_parallel_apply(Replicas *replicas)
{
    Replica *replica = replicas->replica;
    for (int i = 1; i < replicas->num_replicas; i++)
        CHECK(thread_start(&replica[i].thread, forward_and_backward, &replica[i]) == 0,
              "cannot start a thread for replica %d", i);
    forward_and_backward(&replica[0]);
    for (int i = 1; i < replicas->num_replicas; i++)
        pthread_join(replica[i].thread, NULL);
}

/* Each share's gradient is a mean over its own rows, so its weight is the share's size. */
void replicas_reduce_add(Replicas *replicas)
{
    float *sum = replicas->replica[0].model->grads;
    const size_t numel = replicas->replica[0].model->numel;
    for (int i = 0; i < replicas->num_replicas; i++) {
        const float weight = (float)replicas->replica[i].share.size / (float)replicas->batch_size;
        const float *grads = replicas->replica[i].model->grads;
        for (size_t k = 0; k < numel; k++)
            sum[k] = (i > 0 ? sum[k] : 0) + weight * grads[k];
        replicas->moved_bytes += i > 0 ? numel * sizeof(float) : 0;
    }
}

void replicas_end_step(Replicas *replicas)
{
    const double seconds = seconds_now() - replicas->begun;
    replicas->fastest = fmin(replicas->fastest, seconds);
    replicas->sum += replicas->replica[0].model->step > 1 ? seconds : 0;
}

double replicas_mean_loss(const Replicas *replicas)
{
    double sum = 0;
    for (int i = 0; i < replicas->num_replicas; i++) {
        const Replica *replica = &replicas->replica[i];
        if (replica->share.size > 0)
            sum += (double)model_loss(replica->model) * replica->share.size;
    }
    return sum / replicas->batch_size;
}

void replicas_print(const Replicas *replicas)
{
    const double steps = (double)replicas->replica[0].model->step;
    if (steps > 1)
        log_print("device 0 sent and received %.0f bytes a step; a step took %.1f ms, the fastest "
                  "%.1f ms",
                  (double)replicas->moved_bytes / steps, 1e3 * replicas->sum / (steps - 1),
                  1e3 * replicas->fastest);
}
