/* DDP sends all gradients in each step. Here all weights are sent, which are as many, once in a
 * round. In between the ranks differ: each follows the gradients of its own rows. */
#include "beyond/local_sgd/local_sgd.h"

void local_sgd_init(LocalSgd *local, ProcessGroup *pg, Model *model, int period)
{
    *local = (LocalSgd){ .pg = pg, .model = model, .period = period };
}

void local_sgd_average(LocalSgd *local)
{
    if (local->steps == 0)
        return;
    all_reduce(local->pg, local->model->params, local->model->numel, FLOAT32, REDUCE_MEAN);
    local->steps = 0;
}

void local_sgd_step(LocalSgd *local)
{
    if (++local->steps == local->period)
        local_sgd_average(local);
}
