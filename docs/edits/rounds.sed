# For tools/break.sh 02 and for the asides of beyond/comm_hooks and beyond/local_sgd: how many bytes rank 0 has sent in all
# at the end of an epoch; how long a step takes (the mean of those after the eighth, and what it takes of the processor),
# and the round that ends with the epoch. bench/local_sgd.py also lets the programs sleep instead of compute.
s|^#include "common/base/args.h"|#include "beyond/usage.h"\n#include "bench/rounds.h"\n&|
s|^ *Metrics metrics;|    uint64_t begin_bytes, end_bytes, received;\
    double sum = 0, processor = 0;\
    int counted = 0;\
    tcp_payload_bytes(\&pg, \&begin_bytes, \&received);\
&|
s|^ *run_batch(&model.*|            const double begin = seconds_now(), worked = thread_seconds();\
&\
            if (model.step > 8 \&\& model.step <= 24) {\
                sum += seconds_now() - begin;\
                processor += thread_seconds() - worked;\
                counted++;\
            }|
/what is evaluated and saved are the weights of all/{
s|^|        const double end_begin = seconds_now();\n|
s|$|\n        if (rank == 0)\n            log_print("the end of the epoch took %.3f ms", 1e3 * (seconds_now() - end_begin));|
}
s|^ *all_check_divergence(.*// before it is saved|&\
        tcp_payload_bytes(\&pg, \&end_bytes, \&received);\
        if (rank == 0)\
            log_print("epoch %d: %zu bytes sent after %zu steps; a step took %.3f ms, %.3f of the processor", epoch,\
                      (size_t)(end_bytes - begin_bytes), (size_t)model.step, 1e3 * sum / counted, 1e3 * processor / counted);|
