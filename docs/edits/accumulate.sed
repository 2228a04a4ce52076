# For tools/break.sh 02: gradients of two batches add up, and travel once.
s|^    model_zero_grad(model);|    const bool last = batch->number % 2 == 1;\
    reducer_set_sync(reducer, last);\
    if (!last)\
        model_zero_grad(model);|
s|^    optim_step(optim);|    if (last)\
        optim_step(optim);|
