# For tools/break.sh 02 and for the asides train_zero*.c and data_parallel.c: the most bytes that a rank holds while it
# trains (device 0 of data_parallel) and how many it sends in a step. Ends after the first epoch's last step.
s|^#include "common/base/log.h"|#include <stdlib.h>\n#include "beyond/usage.h"\n&|
s|^ *device_init(&\(.*device\), args.*|&\n        usage_init(\&\1);|
s|^ *metrics_init(.*, rank, .*|&\n    usage_begin(\&pg);|
s|^ *replicas_init(.*|&\n    usage_begin(NULL);|
s|^ *all_check_divergence.*// before it is saved|&\n        usage_print(\&pg, model.step);\
        process_group_destroy(\&pg);\
        exit(0);|
s|^ *replicas_print(.*|&\n    usage_print(NULL, model.step);|
