# For tools/break.sh 02b, on 2 ranks: each takes the step for its share of the parameters (ZeRO-1).
s|^    all_reduce(pg, model->grads, .*|    const size_t share = model->numel / pg->world_size, first = share * pg->rank;\
    reduce_scatter(pg, model->grads, model->grads + first, share, FLOAT32, REDUCE_MEAN);|
s|^    optim_step(optim);|&\
    all_gather(pg, model->params + first, model->params, share, FLOAT32);|
