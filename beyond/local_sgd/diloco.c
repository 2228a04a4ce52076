/* The weights of all ranks are the same whenever a round begins, so what is averaged may as well be
 * the change: then the outer optimizer can go further than the average. */
#include "beyond/local_sgd/diloco.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

void diloco_init(Diloco *diloco, ProcessGroup *pg, Model *model, int period, float lr,
                 float momentum)
{
    if (pg->place.on_gpu)
        usage_error("this aside is for --device cpu: its outer optimizer works in host memory");
    *diloco =
        (Diloco){ .pg = pg, .model = model, .period = period, .lr = lr, .momentum = momentum };
    diloco->begin = mem_alloc(model->numel, sizeof *diloco->begin);
    diloco->change = mem_alloc(model->numel, sizeof *diloco->change);
    diloco->velocity = mem_calloc(model->numel, sizeof *diloco->velocity);
    memcpy(diloco->begin, model->params, model->numel * sizeof *diloco->begin);
}

void diloco_end_round(Diloco *diloco)
{
    float *params = diloco->model->params, *begin = diloco->begin, *change = diloco->change;
    const size_t numel = diloco->model->numel;
    if (diloco->steps == 0)
        return;
    for (size_t i = 0; i < numel; i++)
        change[i] = begin[i] - params[i];
    all_reduce(diloco->pg, change, numel, FLOAT32, REDUCE_MEAN);
    for (size_t i = 0; i < numel; i++) {
        diloco->velocity[i] = diloco->momentum * diloco->velocity[i] + change[i];
        begin[i] -= diloco->lr * (change[i] + diloco->momentum * diloco->velocity[i]);
        params[i] = begin[i];
    }
    diloco->steps = 0;
}

void diloco_step(Diloco *diloco)
{
    if (++diloco->steps == diloco->period)
        diloco_end_round(diloco);
}

void diloco_free(Diloco *diloco)
{
    free(diloco->velocity);
    free(diloco->change);
    free(diloco->begin);
}
