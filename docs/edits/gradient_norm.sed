# For tools/break.sh 05: a step whose gradient is ten times as long as is usual is not taken.
s|^    optim_step(optim);|    static double usual;\
    double squares = 0;\
    for (size_t i = 0; i < model->numel; i++)\
        squares += (double)model->grads[i] * model->grads[i];\
    if (usual > 0 \&\& !(squares < 100 * usual)) {\
        log_info("after step %zu: a gradient %.0f times as long as usual", (size_t)model->step,\
                 __builtin_sqrt(squares / usual));\
        model->step++;\
        return; // all ranks do: they have the same mean\
    }\
    usual = usual > 0 ? 0.9 * usual + 0.1 * squares : squares;\
&|
