# Before a rank leaves the group: are its weights equal to the others'? Sums of bits, so nothing is rounded.
s|^ *process_group_destroy(&pg);|    double bits = 0;\
    for (size_t k = 0; k < model.numel; k++) {\
        unsigned word;\
        memcpy(\&word, model.params + k, sizeof word);\
        bits += (double)(word % 65521) * (double)(k % 101 + 1);\
    }\
    if (all_reduce_scalar(\&pg, bits, REDUCE_MAX) != all_reduce_scalar(\&pg, bits, REDUCE_MIN))\
        die("the replicas differ");\
&|
