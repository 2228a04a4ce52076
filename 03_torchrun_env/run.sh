#!/bin/sh
# Usage: [LAUNCHER=ddprun|torchrun|mpirun] 03_torchrun_env/run.sh [ranks] [options of train]
# Ranks: one per GPU, else 2. LAUNCHER: ddprun, if not set.
set -eu
here=$(dirname "$0")
train=$here/train
launcher=${LAUNCHER:-ddprun}
case " $* " in *" --help "* | *" -h "*) launcher=--help; sed -n '2,/^set/s/^# //p' "$0"; echo ;; esac
for program in train ddprun; do
    [ -x "$here/$program" ] || { echo "$0: no program yet: run 'make 03' first" >&2 && exit 1; }
done

case ${1:--} in
-*) # one for each GPU, if there are any
    ranks=$("$here/ddprun" --standalone --nproc-per-node gpu printenv LOCAL_WORLD_SIZE 2>/dev/null | head -n 1)
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
ddprun) exec "$here/ddprun" --nproc-per-node "$ranks" "$train" "$@" ;;
torchrun)
    needs torchrun
    exec torchrun --standalone --nproc-per-node "$ranks" --no-python "$train" "$@"
    ;;
mpirun)
    needs mpirun
    make_secret
    [ -z "${RANK:-}${WORLD_SIZE:-}${TORCHELASTIC_RUN_ID:-}" ] || unset MASTER_ADDR MASTER_PORT # an outer job's
    forget_outer_job
    export MASTER_ADDR="${MASTER_ADDR:-localhost}" MASTER_PORT="${MASTER_PORT:-$(($$ % 12000 + 20000))}"
    # mpirun sets variables of its own, Open MPI's other ones than MPICH's and Intel's; each rank derives from them the
    # five that step 03 reads.
    # shellcheck disable=SC2016 # the ranks' shells expand the variables
    exec "$here/mpirun.sh" "$ranks" sh -c '
        export RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} LOCAL_RANK=${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}
        export WORLD_SIZE=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}
        export LOCAL_WORLD_SIZE=${OMPI_COMM_WORLD_LOCAL_SIZE:-$MPI_LOCALNRANKS}
        exec "$0" "$@"' "$train" "$@"
    ;;
*) echo "$0: LAUNCHER=$launcher: it is ddprun, torchrun or mpirun" >&2 && exit 2 ;;
esac
