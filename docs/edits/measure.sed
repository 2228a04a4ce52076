# For tools/break.sh 02b, 02c and 02: how many bytes a rank sends in a step, and how long a step takes
# (the mean of all but the first, which warms up, and the fastest).
s|^#include "common/base/args.h"|#include "beyond/usage.h"\n&|
s|^ *const Batch \*batch;|uint64_t begin_bytes, end_bytes, received, sent = 0;\
double fastest = 1e9, sum = 0;\
&|
s|^ *run_batch(&model.*|tcp_payload_bytes(\&pg, \&begin_bytes, \&received);\
const double begin = seconds_now();\
&\
const double seconds = seconds_now() - begin;\
fastest = seconds < fastest ? seconds : fastest;\
sum += model.step > 1 ? seconds : 0;\
tcp_payload_bytes(\&pg, \&end_bytes, \&received);\
sent += end_bytes - begin_bytes;|
s|^ *if (test_set.size > 0).*|log_print("rank %d sent %zu bytes a step; a step took %.1f ms, the fastest %.1f ms", rank,\
          (size_t)(sent / model.step), 1e3 * sum / (double)(model.step - 1), 1e3 * fastest);\
&|
