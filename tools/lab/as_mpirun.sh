#!/bin/sh
# Usage: ddprun ... tools/lab/as_mpirun.sh PROGRAM [options]   Renames the variables as mpirun has them.
export OMPI_COMM_WORLD_RANK="$RANK" OMPI_COMM_WORLD_SIZE="$WORLD_SIZE"
export OMPI_COMM_WORLD_LOCAL_RANK="$LOCAL_RANK" OMPI_COMM_WORLD_LOCAL_SIZE="$LOCAL_WORLD_SIZE"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK
exec "$@"
