#!/bin/sh
# Usage: 03_torchrun_env/mpirun.sh RANKS PROGRAM [arguments]
# Starts ranks on this machine with the mpirun that is first in PATH: Open MPI's, or that of MPICH, MVAPICH or Intel MPI,
# which is called Hydra. Ranks are not bound, since their threads need more than one core.
set -eu
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
ranks=$1
shift
case $(mpirun --version 2>&1) in
*HYDRA* | *'Intel(R) MPI'*)
    # Open MPI's names of an outer job would take precedence over PMI_RANK.
    unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE
    export I_MPI_PIN="${I_MPI_PIN:-off}"
    # Intel's mpirun is a script: a signal ends it, while the ranks go on. The program behind it passes signals on.
    exec "$(dirname "$(command -v mpirun)")/mpiexec" -n "$ranks" "$@"
    ;;
*)
    [ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec mpirun --bind-to none --oversubscribe -n "$ranks" "$@"
    ;;
esac
