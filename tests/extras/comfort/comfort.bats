#!/usr/bin/env bats
# What extras/comfort adds to messages of the trainers and of the launcher.

bats_require_minimum_version 1.5.0

setup() {
    unset LOCAL_RANK RANK
}

@test "a port in use: the launcher and a rank name who has it" {
    python3 -c 'import socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
time.sleep(1000)' >"$BATS_TEST_TMPDIR/port" 3>&- &
    local server=$! port
    until [ -s "$BATS_TEST_TMPDIR/port" ]; do sleep 0.05; done
    port=$(cat "$BATS_TEST_TMPDIR/port")
    run -1 03_torchrun_env/ddprun --nnodes 1 --master-port "$port" true
    [[ $output == *"at 127.0.0.1:$port: Address already in use by python3 (pid $server); try --master-port" ]]
    run -1 env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" 03_torchrun_env/train --device cpu
    [[ $output == *"cannot serve the store at 127.0.0.1:$port: Address already in use by python3 (pid $server)"* ]]
    kill "$server"
}

@test "a program that cannot be started: what to do" {
    local script=$BATS_TEST_TMPDIR/script
    echo '#!/bin/sh' >"$script"
    run -126 03_torchrun_env/ddprun --nproc-per-node 2 "$script"
    [ "$output" = "ddprun: cannot start $script: Permission denied; it is not executable: see chmod +x" ]
    run -127 03_torchrun_env/ddprun 2 03_torchrun_env/train
    [ "$output" = "ddprun: cannot start 2: No such file or directory: a program is expected here; the number of ranks goes behind --nproc-per-node" ]
    run -126 03_torchrun_env/ddprun --nproc-per-node 2 ./03_torchrun_env
    [ "$output" = "ddprun: cannot start ./03_torchrun_env: Permission denied; it is a folder here: name a program in it" ]
    cd 03_torchrun_env
    run -127 ./ddprun --nproc-per-node 2 train
    [ "$output" = "ddprun: cannot start train: No such file or directory; it is here, but not in PATH: write ./ in front" ]
}
