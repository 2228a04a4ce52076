#!/bin/sh
# Usage: start.sh [options of train]
# Starts two ranks by hand, as you would on two nodes. Here both nodes are this machine.
port=$((20000 + $$ % 10000))

RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port GLOO_SOCKET_IFNAME=lo 03_torchrun_env/train "$@" &
first=$!
RANK=1 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port GLOO_SOCKET_IFNAME=lo 03_torchrun_env/train "$@" &
second=$!

status=0
wait $first || status=$?
wait $second || status=$?
exit $status
