# For tools/break.sh 02b, after bf16_gradients.sed: how far is the mean from that of float32?
s|^    all_reduce_bf16(pg, .*|    static float exact[2000000];\
    memcpy(exact, model->grads, model->numel * sizeof(float));\
    all_reduce(pg, exact, model->numel, FLOAT32, REDUCE_MEAN);\
&\
    double wrong = 0, all = 0;\
    for (size_t i = 0; i < model->numel; i++) {\
        wrong += ((double)model->grads[i] - exact[i]) * ((double)model->grads[i] - exact[i]);\
        all += (double)exact[i] * exact[i];\
    }\
    if (pg->rank == 0)\
        log_print("%d ranks: the mean is %.2f %% off", pg->world_size, 100 * __builtin_sqrt(wrong / all));|
