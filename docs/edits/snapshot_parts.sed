# For tools/break.sh 05: every rank writes a part of each snapshot (every 10 steps).
s|^/\* One step of gradient descent. \*/|#include "docs/edits/snapshot_parts.h"\
\
&|
s|snapshots_resume(&snapshots);.*|parts_load(\&checkpoint);\
    broadcast(\&pg, model.params, model.numel, FLOAT32, 0);|
s|^            snapshots_step(&snapshots);|            if (model.step % 10 == 0)\
                parts_save(\&checkpoint, \&pg);|
