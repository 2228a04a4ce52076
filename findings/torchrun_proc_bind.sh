#!/bin/sh
# Tool:  torchrun of PyTorch 2.15.0 with OMP_PROC_BIND=true or OMP_PLACES=cores, as clusters advise for OpenMP
# Guess: on a machine of at least two cores, two workers run on cores of their own, or on all.
# Seen:  torchrun, which imports torch, is bound to the first core by its OpenMP, and so are all that it starts.
# > neither: each worker may use all cores
# > OMP_PROC_BIND=true: all workers share one core
# > OMP_PLACES=cores: all workers share one core
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY OMP_NUM_THREADS
[ "$(nproc)" -ge 2 ] || cannot "there is one core"
install torch==2.15.0

cat >"$tmp/worker.py" <<'EOF'
import os

print(*sorted(os.sched_getaffinity(0)), flush=True)
EOF
for setting in 'neither=' OMP_PROC_BIND=true OMP_PLACES=cores; do
    env "$setting" python -m torch.distributed.run --standalone --nproc-per-node 2 "$tmp/worker.py" >"$tmp/cores" 2>>"$tmp/errors"
    case $(sort -u "$tmp/cores" | wc -l)/$(head -n 1 "$tmp/cores" | wc -w) in
    1/1) said='all workers share one core' ;;
    1/"$(nproc)") said='each worker may use all cores' ;;
    *) said=$(paste -sd , "$tmp/cores") ;;
    esac
    echo "${setting%=}: $said"
done | verdict
