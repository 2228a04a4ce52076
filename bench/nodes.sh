#!/bin/sh
# Usage: bench/nodes.sh NODES RANKS PROGRAM...   Starts PROGRAM by ddprun, RANKS times on each of NODES machines (root).
# Network namespaces stand for the machines; between them lies a switch, a bridge in a namespace of its own.
set -eu
[ $# -ge 3 ] || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }
[ "${DDP_NODES:-}" = mounted ] || DDP_NODES=mounted exec unshare --mount "$0" "$@" # names of networks that go with it
nodes=$1 per_node=$2
shift 2
mkdir -p /run/netns
mount -t tmpfs none /run/netns
ip netns add switch
ip -n switch link add switch type bridge
ip -n switch link set switch up
for i in $(seq 0 $((nodes - 1))); do
    ip netns add "node$i"
    ip -n "node$i" link add cable type veth peer name "port$i" netns switch
    ip -n switch link set "port$i" master switch up
    ip -n "node$i" addr add 10.77.1.$((i + 1))/24 dev cable
    ip -n "node$i" link set cable up
    ip -n "node$i" link set lo up
done

pids='' status=0
for i in $(seq 0 $((nodes - 1))); do
    ip netns exec "node$i" 03_torchrun_env/ddprun --nnodes "$nodes" --node-rank "$i" --nproc-per-node "$per_node" \
        --master-addr 10.77.1.1 --master-port 29500 "$@" &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid" || status=$?; done
exit $status
