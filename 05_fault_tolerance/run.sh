#!/bin/sh
# Usage: [MAX_RESTARTS=n] [RECONFIGURE=1] [LAUNCHER=ddprun|torchrun|mpirun|srun] 05_fault_tolerance/run.sh [ranks] [options of train]
# Ranks: one per GPU, else 2. MAX_RESTARTS: how often a failed job is restarted, 3 if not set. RECONFIGURE=1: the ranks
# that are left go on, and only the failed one is replaced. srun: runs it as a Slurm job, on a local cluster if there is no other.
set -eu
here=$(dirname "$0")
train=$here/train ddprun=$here/ddprun slurm=$here/../04_slurm_multinode
launcher=${LAUNCHER:-ddprun}
if [ "${RECONFIGURE:-0}" != 0 ]; then
    [ "$launcher" = ddprun ] || { echo "$0: RECONFIGURE=1 needs LAUNCHER=ddprun" >&2 && exit 2; }
    train=$here/reconfigure/train_reconfigure && export DDP_RECONFIGURE=1
fi
case " $* " in *" --help "* | *" -h "*) launcher=--help; sed -n '2,/^set/s/^# //p' "$0"; echo ;; esac
for program in "$train" "$ddprun"; do
    [ -x "$program" ] || { echo "$0: no program yet: run 'make 05' first" >&2 && exit 1; }
done
case ${MAX_RESTARTS:=3} in
*[!0-9]*) echo "$0: MAX_RESTARTS=$MAX_RESTARTS: it is a number from 0 on" >&2 && exit 2 ;;
esac
export MAX_RESTARTS

case ${1:--} in
-*) # one for each GPU, if there are any
    ranks=$("$ddprun" --standalone --nproc-per-node gpu printenv LOCAL_WORLD_SIZE 2>/dev/null | head -n 1)
    ranks=${ranks:-2}
    ;;
*[!0-9]* | 0*) echo "$0: the number of ranks must be a whole number from 1 on, not \"$1\"" >&2 && exit 2 ;;
*) ranks=$1 && shift ;;
esac

needs() {
    command -v "$1" >/dev/null || { echo "$0: no $1 here: see 'make doctor'" >&2 && exit 1; }
}
# A rank needs this secret to join. The file has no name any more; it disappears with the last process that has it open.
make_secret() {
    [ -z "${DDP_SECRET_FILE+set}" ] || return 0
    grep -q 'ddp secret' "$train" || return 0 # built without extras/secret: it can use none
    { file=$(mktemp) && head -c 32 /dev/urandom >"$file"; } 2>/dev/null || {
        rm -f "${file:-}"
        echo "$0: cannot write the job's secret into ${TMPDIR:-/tmp}: set TMPDIR to a folder with room, or DDP_SECRET_FILE to a file of yours" >&2
        exit 1
    }
    exec 9<"$file" && rm "$file"
    export DDP_SECRET_FILE="/proc/$$/fd/9"
}
# What a launcher around this script has set: mpirun would pass it on to the ranks.
forget_outer_job() {
    unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK
    unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID TORCHELASTIC_ERROR_FILE
}
case $launcher in
--help) exec "$train" --help ;;
ddprun)
    exec "$ddprun" --max-restarts "$MAX_RESTARTS" --nproc-per-node "$ranks" "$train" "$@"
    ;;
torchrun)
    needs torchrun
    exec torchrun --standalone --max-restarts "$MAX_RESTARTS" --nproc-per-node "$ranks" --no-python "$train" "$@"
    ;;
mpirun)
    needs mpirun
    make_secret
    [ -z "${RANK:-}${WORLD_SIZE:-}${TORCHELASTIC_RUN_ID:-}" ] || unset MASTER_ADDR MASTER_PORT # an outer job's
    forget_outer_job
    export MASTER_ADDR="${MASTER_ADDR:-localhost}" MASTER_PORT="${MASTER_PORT:-$(($$ % 12000 + 20000))}"
    exec "$here/restart.sh" "$here/../03_torchrun_env/mpirun.sh" "$ranks" "$train" "$@"
    ;;
srun)
    PATH=$PATH:/usr/sbin:/sbin && needs srun
    [ -e "${SLURM_CONF:-/}" ] || unset SLURM_CONF # of a local cluster that is down
    here=$(CDPATH='' cd "$here" && pwd) # a job starts in another folder
    eval "$("$slurm/local_cluster.sh" env 2>/dev/null)"
    set -- "$slurm/submit.sh" --nodes=1 --ntasks-per-node="$ranks" "$here/train.slurm" "$@"
    ! timeout 20 sinfo >/dev/null 2>&1 || exec "$@"
    needs slurmctld
    DDP_CLUSTER_DIR=${TMPDIR:-/tmp}/ddp-cluster-$(id -u)-$$ && export DDP_CLUSTER_DIR
    exec "$slurm/local_cluster.sh" run "$@"
    ;;
*) echo "$0: LAUNCHER=$LAUNCHER: it is ddprun, torchrun, mpirun or srun" >&2 && exit 2 ;;
esac
