# For tools/break.sh 02: says which gradient gets ready, and how many buckets are on their way then.
s|^/\* One step of gradient descent. \*/|static void watch(void *context, int i)\
{\
    Reducer *reducer = context;\
    reducer_mark_ready(reducer, i);\
    if (reducer->pg->rank == 0)\
        log_print("%-12s ready, %d of %d buckets sent", reducer->parameter[i].name, reducer->next,\
                  reducer->num_buckets);\
}\
\
&|
s|model_set_grad_hook(&model, reducer_mark_ready|model_set_grad_hook(\&model, watch|
