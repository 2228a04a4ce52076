# One training, many launchers: torchrun, torch.distributed.launch, mpirun, a shell; the same losses.

load launchers_helper

# trained_as_under_ddprun MODEL RANKS FILE: the losses in FILE are ddprun's, to the last digit.
trained_as_under_ddprun() {
    under_ddprun "$1" "$2"
    diff "$OUT/expected" <(losses "$3")
}

@test "torchrun --standalone" {
    for model in linear cnn; do
        node 0 torchrun --standalone --nproc-per-node 2 --no-python \
            03_torchrun_env/train $(train_options $model)
        trained_as_under_ddprun $model 2 "$OUT/node_0"
    done
}

@test "torchrun on two nodes, static: one rank and two" {
    for model in linear cnn; do
        two_nodes torchrun "torchrun --nproc-per-node 2" 03_torchrun_env/train $(train_options $model)
        [ "$status_0 $status_1" = "0 0" ]
        trained_as_under_ddprun $model 3 "$OUT/node_0"
    done
}

@test "torchrun on two nodes, c10d: who is rank 0 shows later" {
    for model in linear cnn; do
        agent="torchrun --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:$(free_port) --rdzv-id job"
        two_agents "$agent" "$agent" 03_torchrun_env/train $(train_options $model)
        [ "$status_0 $status_1" = "0 0" ]
        cat "$OUT/node_0" "$OUT/node_1" > "$OUT/both"
        trained_as_under_ddprun $model 2 "$OUT/both"
    done
}

@test "torch.distributed.launch: with --use-env, and with --local-rank as first argument" {
    launch="timeout -k 20 400 python -W ignore -m torch.distributed.launch --log-dir $OUT/launch"
    node 0 $launch --nproc-per-node 2 --use-env --no-python 03_torchrun_env/train $(train_options linear)
    trained_as_under_ddprun linear 2 "$OUT/node_0"

    # Without --use-env it starts Python scripts only: python -u train --local-rank=N ...
    cat > "$OUT/python" <<'END'
#!/bin/sh
[ "$1 $3" = "-u --local-rank=$LOCAL_RANK" ] || exit 9
shift
exec env -u LOCAL_RANK "$@"
END
    chmod +x "$OUT/python"
    PYTHON_EXEC=$OUT/python node 0 $launch --nproc-per-node 2 03_torchrun_env/train $(train_options linear)
    trained_as_under_ddprun linear 2 "$OUT/node_0"
}

@test "mpirun through run.sh: tcp to the last digit, mpi almost" {
    command -v mpirun > /dev/null || skip "no mpirun"
    export LAUNCHER=mpirun MASTER_PORT
    for model in linear cnn; do
        MASTER_PORT=$(free_port)
        node 0 timeout -k 5 300 03_torchrun_env/run.sh 3 $(train_options $model) --backend tcp
        trained_as_under_ddprun $model 3 "$OUT/node_0"

        grep -q MPI=1 "${BUILD:-build}/parts" || skip "built without MPI"
        MASTER_PORT=$(free_port)
        node 0 timeout -k 5 300 03_torchrun_env/run.sh 3 $(train_options $model) --backend mpi
        paste "$OUT/expected" <(losses "$OUT/node_0") | awk '
            { for (i = 1; $i != "Loss:"; i++); for (j = NF; $j != "Loss:"; j--); n++ }
            i == j || $(i + 1) - $(j + 1) > 1e-4 || $(j + 1) - $(i + 1) > 1e-4 { print; exit bad = 1 }
            END { exit bad || n < 4 }'
    done
}

@test "torchrun through run.sh; and a loop of the shell" {
    LAUNCHER=torchrun node 0 timeout -k 20 400 03_torchrun_env/run.sh 2 $(train_options linear)
    trained_as_under_ddprun linear 2 "$OUT/node_0"
    rm -r "$TMPDIR"/torchelastic_* # torchrun does not tidy up

    for model in linear cnn; do
        export MASTER_ADDR=127.0.0.1 MASTER_PORT WORLD_SIZE=3
        MASTER_PORT=$(free_port)
        for rank in 2 1 0; do
            RANK=$rank LOCAL_RANK=$rank node $rank timeout 300 03_torchrun_env/train $(train_options $model) &
        done
        for job in $(jobs -p); do wait "$job"; done
        trained_as_under_ddprun $model 3 "$OUT/node_0"
    done
}
