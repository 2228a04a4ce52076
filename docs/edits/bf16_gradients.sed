# For tools/break.sh 02b: gradients travel as bf16, and every addition on the way rounds to it.
s|^/\* One step of gradient descent. \*/|static void all_reduce_bf16(ProcessGroup *pg, float *grads, size_t numel)\
{\
    static uint16_t shorter[2000000];\
    for (size_t i = 0; i < numel; i++) {\
        union { float number; uint32_t bits; } grad = { grads[i] };\
        shorter[i] = (uint16_t)((grad.bits + 0x7fff + (grad.bits >> 16 \& 1)) >> 16);\
    }\
    all_reduce(pg, shorter, numel, BFLOAT16, REDUCE_MEAN);\
    for (size_t i = 0; i < numel; i++) {\
        union { uint32_t bits; float number; } grad = { (uint32_t)shorter[i] << 16 };\
        grads[i] = grad.number;\
    }\
}\
\
&|
s|^    all_reduce(pg, model->grads, .*|    all_reduce_bf16(pg, model->grads, model->numel);|
