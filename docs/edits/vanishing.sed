/^    model_backward(model);/a\
    int zero = 0, vanish = 0, saved = 0, overflow = 0;\
    for (size_t i = 0; i < model->numel; i++) {\
        const float size = __builtin_fabsf(model->grads[i]);\
        zero += size == 0;\
        vanish += size > 0 && size <= 0x1p-25f; // half of fp16's smallest number\
        saved += size > 0 && size <= 0x1p-25f && size * 65536 > 0x1p-25f;\
        overflow += size * 65536 >= 65520;\
    }\
    log_print("of %zu gradients %d are 0 as it is, %d more in fp16; times 65536, %d of these are back, %d too large",\
              model->numel, zero, vanish, saved, overflow);
