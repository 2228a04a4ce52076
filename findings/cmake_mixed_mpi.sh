#!/bin/sh
# Tool:  CMake 4.4.5 (wheel cmake), Debian's Open MPI 4.1.4, Intel MPI 2021.18.1 (wheel impi-rt, which has no mpicc)
# Guess: find_package(MPI) finds the compiler and mpiexec of one MPI, or fails.
# Seen:  it takes mpicc from one and mpiexec from the other, and reports success. A test of two ranks then runs twice
#        with one rank each, and passes.
# > find_package(MPI): Open MPI to build, Intel's to run
# > MPIEXEC_EXECUTABLE -n 2: rank 0 of 1, rank 0 of 1, status 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ "$(dpkg-query -W -f '${Version}' libopenmpi-dev 2>/dev/null)" = 4.1.4-3+b1 ] || cannot "no libopenmpi-dev 4.1.4-3+b1"
PATH=/usr/bin:/bin:$PATH
install impi-rt==2021.18.1 cmake==4.4.5

mkdir "$tmp/project"
cat >"$tmp/project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.20)
project(ranks C)
find_package(MPI REQUIRED)
add_executable(ranks ranks.c)
target_link_libraries(ranks MPI::MPI_C)
file(WRITE ${CMAKE_BINARY_DIR}/found "${MPI_C_LIBRARIES}\n${MPIEXEC_EXECUTABLE}\n")
EOF
cat >"$tmp/project/ranks.c" <<'EOF'
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    int rank, size;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d\n", rank, size);
    return MPI_Finalize();
}
EOF
{ cmake -S "$tmp/project" -B "$tmp/build" && cmake --build "$tmp/build"; } >"$tmp/errors" 2>&1 || cannot "cmake fails"
{
    {
        read -r library
        read -r mpiexec
    } <"$tmp/build/found"
    case $library in *openmpi*) build="Open MPI" ;; *) build=$library ;; esac
    case $mpiexec in "$tmp"/venv/*) run="Intel's" ;; *) run=$mpiexec ;; esac
    echo "find_package(MPI): $build to build, $run to run"
    status=0
    "$mpiexec" -n 2 "$tmp/build/ranks" >"$tmp/out" 2>"$tmp/errors" || status=$?
    echo "MPIEXEC_EXECUTABLE -n 2: $(paste -sd , "$tmp/out" | sed 's/,/, /g'), status $status"
} >"$tmp/all"
verdict <"$tmp/all"
