# For what localsgd.sed makes: DiLoCo without a library.
s|^#include <sys/prctl.h>|#include <stdlib.h>\
#include <string.h>\
&|
s|^static void end_round|static float *begin, *change, *velocity;\
\
static void begin_round(Model *model)\
{\
    begin = mem_alloc(model->numel, sizeof *begin);\
    change = mem_alloc(model->numel, sizeof *change);\
    velocity = mem_calloc(model->numel, sizeof *velocity);\
    memcpy(begin, model->params, model->numel * sizeof *begin);\
}\
\
&|
s|^    all_reduce(pg, model->params.*|    float *params = model->params;\
    for (size_t i = 0; i < model->numel; i++)\
        change[i] = begin[i] - params[i];\
    all_reduce(pg, change, model->numel, FLOAT32, REDUCE_MEAN);\
    for (size_t i = 0; i < model->numel; i++) {\
        velocity[i] = 0.9f * velocity[i] + change[i];\
        begin[i] -= 0.7f * (change[i] + 0.9f * velocity[i]);\
        params[i] = begin[i];\
    }|
s|^    broadcast(&pg, model.params.*|&\
    begin_round(\&model);|
