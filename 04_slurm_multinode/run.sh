#!/bin/sh
# Usage: [LAUNCHER=srun|ddprun|mpirun|torchrun] 04_slurm_multinode/run.sh [nodes [tasks per node]] [options of train]
# Runs train on 2 nodes with 2 ranks each, or as many as you say: as a Slurm job, if Slurm runs here; else on
# a two-node Slurm that it starts on this machine for this run only; else, if Slurm is not installed or there
# are more nodes, with launchers on this machine, one for each node.
set -eu
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
case ${LAUNCHER:=srun} in
srun) script=train.slurm ;;
ddprun | torchrun) script=train_ddprun.slurm ;;
mpirun) script=train_mpirun.slurm ;;
*) echo "$0: LAUNCHER=$LAUNCHER: it is srun, ddprun, mpirun or torchrun" >&2 && exit 2 ;;
esac
for program in "$here/train" "$here/../03_torchrun_env/ddprun"; do
    [ -x "$program" ] || { echo "$0: no program yet: run 'make 04' first" >&2 && exit 1; }
done
case " $* " in *" --help "* | *" -h "*)
    sed -n '2,/^set/ { /^set/d; s/^# //; p; }' "$0"
    exec "$here/train" --help
    ;;
esac

nodes=2 tasks=2
case ${1:--} in -*) ;; *) nodes=$1 && shift ;; esac
case ${1:--} in -*) ;; *) tasks=$1 && shift ;; esac
case $nodes/$tasks in
0*/* | */0* | *[!0-9]*/* | */*[!0-9]*) echo "$0: the numbers of nodes and ranks must be whole numbers from 1 on, not \"$nodes\" and \"$tasks\"" >&2 && exit 2 ;;
esac
export LAUNCHER PATH="$PATH:/usr/sbin:/sbin"
if [ "$LAUNCHER" = torchrun ] || [ "$LAUNCHER" = mpirun ]; then
    command -v "$LAUNCHER" >/dev/null || { echo "$0: no $LAUNCHER here: see 'make doctor'" >&2 && exit 1; }
fi
[ -w . ] || { echo "$0: cannot write into $PWD, where results and logs go: cd elsewhere" >&2 && exit 1; }
[ -e "${SLURM_CONF:-/}" ] || unset SLURM_CONF # of a local cluster that is down

# Uses a local cluster that is already up. One that is started for this job ends with it.
eval "$("$here/local_cluster.sh" env 2>/dev/null)"
set -- --nodes="$nodes" --ntasks-per-node="$tasks" "$here/$script" "$@"
if timeout 20 sinfo >/dev/null 2>&1; then
    exec "$here/submit.sh" "$@"
fi
DDP_CLUSTER_DIR=${TMPDIR:-/tmp}/ddp-cluster-$(id -u)-$$ && export DDP_CLUSTER_DIR
if [ "$nodes" -le 2 ] && command -v slurmctld >/dev/null && "$here/local_cluster.sh" up >/dev/null; then
    echo "no Slurm here: two nodes on this machine, up for this job alone" >&2
    exec "$here/local_cluster.sh" run "$here/submit.sh" "$@"
fi
echo "no Slurm here: $nodes launchers on this machine, one for each node" >&2
shift 3
exec "$here/nodes_here.sh" "$nodes" "$tasks" "$here/train" "$@"
