#!/bin/sh
# Usage: tools/slow_line.sh RATE COMMAND...      e.g. tools/slow_line.sh 1gbit 02_multi_gpu_spawn/run.sh 2
# Runs a command in a network namespace of its own, whose loopback carries no more than RATE (in tc's units);
# ranks send through it, not through shared memory. Needs ip and tc (iproute2), and a kernel that lets users
# do this.
set -eu
[ $# -ge 2 ] || { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }
# shellcheck disable=SC2016 # the inner shell's arguments, not ours
exec unshare --map-root-user --net sh -ec '
    ip link set lo up
    tc qdisc add dev lo root tbf rate "$0" burst 128kb latency 100ms
    DDP_SHM_DISABLE=1 exec "$@"' "$@"
