#!/bin/sh
# Usage: bench/two_nodes.sh [rate [ranks per node [calls]]]   Runs bench/all_reduce over a slow link (root).
# Two network namespaces stand for two machines; between them lies a cable of `rate` (1gbit; 100mbit ...).
set -eu
CDPATH='' cd "$(dirname "$0")/.."
rate=${1:-1gbit} per_node=${2:-2} calls=${3:-21}
case $rate in
[0-9]*bit) ;;
*) sed -n '2,3s/^# //p' "$0" >&2 && exit 2 ;;
esac
make -s build/bench/all_reduce
if [ "$(id -u)" -ne 0 ] || ! command -v tc >/dev/null; then
    echo "$0: it takes root, and tc (iproute2)" >&2
    exit 1
fi

node=ddp$$n # of the namespaces: this, then 0 or 1
trap 'ip netns del ${node}0; ip netns del ${node}1' EXIT
trap 'exit 130' HUP INT TERM
ip netns add ${node}0
ip netns add ${node}1
ip link add link0 netns ${node}0 type veth peer name link1 netns ${node}1
for i in 0 1; do
    ip -n $node$i addr add 10.77.0.1$i/24 dev link$i
    ip -n $node$i link set link$i up
    ip -n $node$i link set lo up
    tc -n $node$i qdisc add dev link$i root tbf rate "$rate" burst 256kb latency 50ms
done

export WORLD_SIZE=$((2 * per_node)) MASTER_ADDR=10.77.0.10 MASTER_PORT=29500
rank=$WORLD_SIZE pids=''
while [ $((rank -= 1)) -ge 0 ]; do
    RANK=$rank timeout 300 ip netns exec $node$((rank / per_node)) build/bench/all_reduce 2 "$calls" &
    pids="$pids $!"
done
for pid in $pids; do wait "$pid"; done
