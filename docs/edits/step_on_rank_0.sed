# For tools/break.sh 02b: rank 0 alone takes the step, and hands out the weights.
s|^    all_reduce(pg, model->grads, .*|    reduce(pg, model->grads, model->numel, FLOAT32, REDUCE_MEAN, 0);|
s|^    optim_step(optim);|    if (pg->rank == 0)\
        optim_step(optim);\
    else\
        model->step++; // the loop counts by it\
    broadcast(pg, model->params, model->numel, FLOAT32, 0);|
