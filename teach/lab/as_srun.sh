#!/bin/sh
# Usage: ddprun ... teach/lab/as_srun.sh FOLDER PROGRAM [options]
# Renames the launcher's variables to srun's, and gives each node a disk of its own: FOLDER/nodeN.
folder=$1 node=$GROUP_RANK
shift
export SLURM_PROCID="$RANK" SLURM_STEP_NUM_TASKS="$WORLD_SIZE" SLURM_LOCALID="$LOCAL_RANK" SLURM_NODEID="$node"
export SLURM_STEP_TASKS_PER_NODE="$LOCAL_WORLD_SIZE(x$GROUP_WORLD_SIZE)" SLURMD_NODENAME="node$node"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE
exec "$@" --scratch-dir "$folder/node$node"
