#!/bin/sh
# Usage: [LAUNCHER=ddprun|torchrun|mpirun] 04_slurm_multinode/nodes_here.sh NODES RANKS PROGRAM [arguments]
# Pretends that this machine is so many nodes with so many ranks each: a launcher for each of them,
# just as one would type them on the nodes by hand. mpirun needs no launchers of its own.
set -eu
[ $# -ge 3 ] || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
case ${1:-0}/${2:-0} in
0*/* | */0* | *[!0-9/]*) echo "$0: the numbers of nodes and ranks must be whole numbers from 1 on, not \"$1\" and \"$2\"" >&2 && exit 2 ;;
esac
nodes=$1 ranks=$2
shift 2
here=$(dirname "$0")
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000))
cores=$(($(nproc) / (nodes * ranks)))
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 0 ? cores : 1))}"

# A rank needs this secret to join. The file has no name any more; it disappears with this process.
make_secret() {
    [ -z "${DDP_SECRET_FILE+set}" ] || return 0
    file=$(mktemp) && head -c 32 /dev/urandom >"$file" && exec 9<"$file" && rm "$file"
    export DDP_SECRET_FILE="/proc/$$/fd/9"
}
[ "${LAUNCHER:-}" = torchrun ] || make_secret
case ${LAUNCHER:-ddprun} in
ddprun | srun) launcher=$here/../03_torchrun_env/ddprun flag='' ;;
torchrun) launcher=torchrun flag=--no-python ;;
mpirun)
    [ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec mpirun --bind-to none --oversubscribe -n $((nodes * ranks)) "$@"
    ;;
*) echo "$0: LAUNCHER=$LAUNCHER: it is ddprun, torchrun or mpirun" >&2 && exit 2 ;;
esac

# end SIGNAL STATUS: the launchers get SIGTERM, since what a shell starts with & does not hear Ctrl-C. Stopped launchers
# get it all at once: a running one would report that another node has ended.
# shellcheck disable=SC2086,SC2317 # pids are words; traps call it
end() {
    told=$2
    echo "$0: $1 ends the launchers of all $nodes nodes" >&2
    [ -z "$agents" ] || { kill -STOP $agents; kill $agents; kill -CONT $agents; } 2>/dev/null || :
}

agents='' node=0 status=0 told=''
trap 'end SIGINT 130' INT
trap 'end SIGTERM 143' TERM
trap 'end SIGHUP 129' HUP
while [ -z "$told" ] && [ $node -lt "$nodes" ]; do
    # shellcheck disable=SC2086 # no flag is no word
    "$launcher" $flag --nnodes "$nodes" --node-rank $node --nproc-per-node "$ranks" \
        --master-addr $MASTER_ADDR --master-port $MASTER_PORT "$@" &
    agents="$agents $!" node=$((node + 1))
done
# shellcheck disable=SC2086
[ -z "$told" ] || kill $agents 2>/dev/null || : # the one that was started when the signal came
for agent in $agents; do
    wait "$agent" || status=$?
done
wait # those that a signal made us leave
exit "${told:-$status}"
