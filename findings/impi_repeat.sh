#!/bin/sh
# Tool:  Intel MPI 2021.18.1 (wheel impi-rt), with mpi4py 4.1.2
# Guess: the same numbers on the same ranks of one job sum to the same bits in each call, as the standard recommends.
# Seen:  long arrays are added as ranks arrive: sums differ from call to call, though alike on all ranks. I_MPI_CBWR=1
#        keeps the order.
# > Allreduce of the same 300000 numbers, 12 times on 4 ranks: sums differ
# > with I_MPI_CBWR=1: sums are the same
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install impi-rt==2021.18.1 mpi4py==4.1.2 numpy==2.4.6

cat >"$tmp/repeat.py" <<'EOF'
import time
import numpy
from mpi4py import MPI

ranks = MPI.COMM_WORLD
own = numpy.random.default_rng(ranks.rank).standard_normal(300000, numpy.float32)
total = numpy.empty_like(own)
seen = set()
for call in range(12):
    time.sleep(0.02 if ranks.rank == call % ranks.size else 0)  # each rank comes late at times
    ranks.Allreduce(own, total)
    seen.add(total.tobytes())
if ranks.rank == 0:
    print('sums are the same' if len(seen) == 1 else 'sums differ')
EOF
{
    echo "Allreduce of the same 300000 numbers, 12 times on 4 ranks: $(mpiexec -n 4 python "$tmp/repeat.py")"
    echo "with I_MPI_CBWR=1: $(I_MPI_CBWR=1 mpiexec -n 4 python "$tmp/repeat.py")"
} 2>"$tmp/errors" >"$tmp/all"
verdict <"$tmp/all"
