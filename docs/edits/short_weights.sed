/^    optim_step(optim);/a\
    for (size_t i = 0; i < model->numel; i++) { // what bf16 keeps of a weight\
        union { float number; uint32_t bits; } weight = { model->params[i] };\
        weight.bits = (weight.bits + 0x7fff + (weight.bits >> 16 & 1)) & 0xffff0000;\
        model->params[i] = weight.number;\
    }
