# For 02_multi_gpu_spawn/train.c: local SGD without a library, as a learner may write it.
s/comm\/ddp.h/comm\/process_group.h/
s|^/\* One step of gradient descent. \*/|#define PERIOD 8\
\
static void end_round(Model *model, ProcessGroup *pg)\
{\
    all_reduce(pg, model->params, model->numel, FLOAT32, REDUCE_MEAN);\
}\
\
&|
s/Reducer \*reducer)/ProcessGroup *pg)/
/reducer_finalize/d
s|^    optim_step(optim);|&\
    if (model->step % PERIOD == 0)\
        end_round(model, pg);|
/^    Reducer reducer;/d
/reducer_init/d
/model_set_grad_hook/d
/reducer_free/d
s/&batch, &reducer/batch, \&pg/
s/batch, &reducer/batch, \&pg/
s|^        all_check_divergence(.*before it is saved|        if (model.step % PERIOD != 0)\
            end_round(\&model, \&pg);\
&|
