# For tools/break.sh 05: the optimizer's state is not taken over from the checkpoint.
/snapshots_resume(&snapshots);/a\
    memset(optim.state[0], 0, model.numel * sizeof(float));
s|^#include "common/base/args.h"|#include <string.h>\
\
&|
