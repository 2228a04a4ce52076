#!/usr/bin/env bats
# ddprun --print-commands: what to type on each node.

bats_require_minimum_version 1.5.0

setup() {
    unset LOCAL_RANK RANK
    ddprun=03_torchrun_env/ddprun
}

@test "a line for each node, which differ in --node-rank" {
    run -0 $ddprun --nnodes=4 --nproc-per-node 2 --node-rank 3 --master-addr alpha --print-commands ./train 10 --lr 0.1
    [ "${#lines[@]}" -eq 4 ]
    for i in 0 1 2 3; do
        place='another node'
        [ $i -gt 0 ] || place=alpha
        [ "${lines[$i]}" = "$ddprun --node-rank $i --nnodes=4 --nproc-per-node 2 --master-addr alpha ./train 10 --lr 0.1    # on $place" ]
    done
}

@test "typed as printed, the lines start the job; its words arrive as they were" {
    port=$(shuf -i 12000-30000 -n 1)
    $ddprun --print_comm --master-port "$port" --nnodes 2 --node_rank=1 --master-addr alpha --rdzv-conf join_timeout=60 -- \
        sh -c "echo \"\$RANK of \$WORLD_SIZE: it's \$1\"" sh 'a b  $HOME "c"' >"$BATS_TEST_TMPDIR/lines"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/lines")" -eq 2 ]
    sed 's/--master-addr alpha/--master-addr 127.0.0.1/' "$BATS_TEST_TMPDIR/lines" >"$BATS_TEST_TMPDIR/here"
    bash -c "$(sed -n 2p "$BATS_TEST_TMPDIR/here")" >"$BATS_TEST_TMPDIR/second" 2>&1 &
    run -0 --separate-stderr bash -c "$(sed -n 1p "$BATS_TEST_TMPDIR/here")"
    wait
    # shellcheck disable=SC2016 # $HOME as it is
    [ "$output" = '0 of 2: it'\''s a b  $HOME "c"' ]
    # shellcheck disable=SC2016
    grep -qxF '1 of 2: it'\''s a b  $HOME "c"' "$BATS_TEST_TMPDIR/second"
}

@test "one node, and nodes that come and go: one line" {
    run -0 $ddprun --print-commands --nproc-per-node 2 ./train 10
    [ "$output" = "$ddprun --nproc-per-node 2 ./train 10" ]
    run -0 05_fault_tolerance/ddprun --nnodes 1:4 --rdzv-endpoint alpha --print-commands ./train
    [ "$output" = "05_fault_tolerance/ddprun --nnodes 1:4 --rdzv-endpoint alpha ./train    # on each node" ]
}

@test "an address that other nodes do not reach is refused" {
    run -2 $ddprun --nnodes 2 --print-commands ./train
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"--print-commands: no other node reaches node 0 as 127.0.0.1; give --master-addr"* ]]
}
