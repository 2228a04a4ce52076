# Step 04 finds itself by the variables of any launcher: the same losses as under ddprun.

load launchers_helper

# 04's losses are those of 03, which launchers_train.bats compares.
trained_as_under_ddprun() {
    [ "$status_0 $status_1" = "0 0" ]
    under_ddprun cnn "$1"
    diff "$OUT/expected" <(cat "$OUT"/node_? | grep -E '^(Train|Test) Epoch')
}

# found RANK NODE LOCAL_RANK SOURCE: a rank's line about itself has these values, and no node if no launcher numbers nodes.
found() {
    cat "$OUT"/node_?.err | grep -E "^\[rank $1\] ${2:+node $2 \(.* is }host .* local rank $3 \(.* rank from $4;"
}

@test "torchrun on two nodes, static: one rank and two" {
    two_nodes torchrun "torchrun --nproc-per-node 2" 04_slurm_multinode/train $(train_options cnn)
    trained_as_under_ddprun 3
    found 0/3 0 "0 of 1" RANK
    found 1/3 1 "0 of 2" RANK
    found 2/3 1 "1 of 2" RANK
}

@test "torchrun on two nodes, c10d" {
    agent="torchrun --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:$(free_port) --rdzv-id job"
    two_agents "$agent" "$agent" 04_slurm_multinode/train $(train_options cnn)
    trained_as_under_ddprun 2
    found 0/2 0 "0 of 1" RANK
    found 1/2 1 "0 of 1" RANK
}

@test "one node of torchrun's, one of ours" {
    two_nodes torchrun ddprun 04_slurm_multinode/train $(train_options cnn)
    trained_as_under_ddprun 2
    two_nodes ddprun torchrun 04_slurm_multinode/train $(train_options cnn)
    trained_as_under_ddprun 2
}

@test "mpirun without any wrapper: it counts the ranks itself" {
    command -v mpirun > /dev/null || skip "no mpirun"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export MASTER_ADDR=127.0.0.1 MASTER_PORT
    MASTER_PORT=$(free_port)
    status_0=0 status_1=0
    node 0 timeout -k 5 300 mpirun --bind-to none --oversubscribe -n 4 \
        04_slurm_multinode/train $(train_options cnn) --backend tcp || status_0=$?
    trained_as_under_ddprun 4
    for rank in 0 1 2 3; do
        found $rank/4 "" "$rank of 4" OMPI_COMM_WORLD_RANK
    done
}
