#!/bin/sh
# Usage: [LAUNCHER=ddprun|torchrun|mpirun] 04_slurm_multinode/nodes_here.sh NODES RANKS PROGRAM [arguments]
# Pretends that this machine is NODES nodes with RANKS ranks each: starts a launcher for each node, as you
# would by hand on real nodes. mpirun needs no launchers. NODES_HERE_ADDR: where they meet, 127.0.0.1 by default.
set -eu
[ $# -ge 3 ] || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }
case ${1:-0}/${2:-0} in
0*/* | */0* | *[!0-9/]*) echo "$0: the numbers of nodes and ranks must be whole numbers from 1 on, not \"$1\" and \"$2\"" >&2 && exit 2 ;;
esac
nodes=$1 ranks=$2
shift 2
here=$(dirname "$0")
export MASTER_ADDR="${NODES_HERE_ADDR:-127.0.0.1}" MASTER_PORT=$((20000 + $$ % 10000))
cores=$(($(nproc) / (nodes * ranks)))
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((cores > 0 ? cores : 1))}"

# A rank needs this secret to join. The file has no name any more; it disappears with this process.
make_secret() {
    [ -z "${DDP_SECRET_FILE+set}" ] || return 0
    grep -q 'ddp secret' "$here/train" || return 0 # built without extras/secret: it can use none
    { file=$(mktemp) && head -c 32 /dev/urandom >"$file"; } 2>/dev/null || {
        rm -f "${file:-}"
        echo "$0: cannot write the job's secret into ${TMPDIR:-/tmp}: set TMPDIR to a folder with room, or DDP_SECRET_FILE to a file of yours" >&2
        exit 1
    }
    exec 9<"$file" && rm "$file"
    export DDP_SECRET_FILE="/proc/$$/fd/9"
}
[ "${LAUNCHER:-}" = torchrun ] || make_secret
case ${LAUNCHER:-ddprun} in
ddprun | srun) launcher=$here/../03_torchrun_env/ddprun flag='' ;;
torchrun) launcher=torchrun flag=--no-python ;;
mpirun)
    # What a launcher around this script has set: mpirun would pass it on to the ranks.
    unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK
    unset TORCHELASTIC_USE_AGENT_STORE TORCHELASTIC_RUN_ID TORCHELASTIC_ERROR_FILE
    exec "$here/../03_torchrun_env/mpirun.sh" $((nodes * ranks)) "$@"
    ;;
*) echo "$0: LAUNCHER=$LAUNCHER: it is ddprun, torchrun or mpirun" >&2 && exit 2 ;;
esac

# end SIGNAL STATUS: sends SIGTERM to the launchers, since processes started with & ignore Ctrl-C. They are stopped
# first, so that all of them get it at once: a running one would report that another node has ended.
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
    # shellcheck disable=SC2086 # an empty flag must vanish
    "$launcher" $flag --nnodes "$nodes" --node-rank $node --nproc-per-node "$ranks" \
        --master-addr "$MASTER_ADDR" --master-port $MASTER_PORT "$@" &
    agents="$agents $!" node=$((node + 1))
done
# shellcheck disable=SC2086
[ -z "$told" ] || kill $agents 2>/dev/null || : # the last one may have started after the signal
for agent in $agents; do
    wait "$agent" || status=$?
done
wait # for those whose wait a signal interrupted
exit "${told:-$status}"
