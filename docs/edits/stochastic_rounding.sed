# For tools/break.sh 01 and 02: weights in bf16, rounded up in k of 65536 cases if k / 65536 is cut off.
/^    optim_step(optim);/a\
    for (size_t i = 0; i < model->numel; i++) {\
        union { float number; uint32_t bits; } weight = { model->params[i] };\
        uint64_t random = (model->step << 32 ^ i) * 0x9e3779b97f4a7c15; // the same on all ranks\
        random = (random ^ random >> 32) * 0xd6e8feb86659fd93;\
        weight.bits = (weight.bits + (uint32_t)(random >> 48)) & 0xffff0000;\
        model->params[i] = weight.number;\
    }
