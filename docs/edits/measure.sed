# For tools/break.sh 02b, 02c and 02: how many bytes a rank sends in a step, and how long the fastest takes.
s|^#include "common/dist/net.h"|#include "common/dist/backend.h"\n&|
s|^ *const Batch \*batch;|uint64_t begin_bytes, end_bytes, received, sent = 0;\ndouble fastest = 1e9;\n&|
s|^ *run_batch(&model.*|tcp_payload_bytes(\&pg, \&begin_bytes, \&received);\
const double begin = seconds_now();\
&\
if (seconds_now() - begin < fastest)\
    fastest = seconds_now() - begin;\
tcp_payload_bytes(\&pg, \&end_bytes, \&received);\
sent += end_bytes - begin_bytes;|
s|^ *if (test_set.size > 0).*|log_print("rank %d sent %zu bytes a step; the fastest took %.1f ms", rank,\
          (size_t)(sent / model.step), 1e3 * fastest);\
&|
