# Jobs of two nodes with a launcher each, one torchrun's and one ours: their ranks form one group.

load launchers_helper

@test "our train with torchrun on node 0, ddprun on node 1; and the other way round" {
    for model in linear cnn; do
        two_nodes "torchrun" "ddprun --nproc-per-node 2" 03_torchrun_env/train $(train_options $model)
        [ "$status_0 $status_1" = "0 0" ]
        under_ddprun $model 3
        diff "$OUT/expected" <(losses "$OUT/node_0")

        two_nodes "ddprun --nproc-per-node 2" "torchrun --rdzv-id none" \
            03_torchrun_env/train $(train_options $model)
        [ "$status_0 $status_1" = "0 0" ]
        diff "$OUT/expected" <(losses "$OUT/node_0")
    done
}

@test "a PyTorch program: DDP reaches across both" {
    node 0 ddprun --nproc-per-node 2 tests/against/torchrun/launchers_trainer.py 5
    losses "$OUT/node_0" > "$OUT/expected"
    [ "$(wc -l < "$OUT/expected")" -eq 5 ]
    for nodes in "torchrun ddprun" "ddprun torchrun"; do
        two_nodes $nodes --rdzv-id job python tests/against/torchrun/launchers_trainer.py 5
        [ "$status_0 $status_1" = "0 0" ]
        diff "$OUT/expected" "$OUT/node_0"
    done
}

# killed_midway RANK "LAUNCHER0" "LAUNCHER1" PROGRAM...: when rank 0 has printed two losses, RANK's
# program is killed and its wrapper ends with status 5. `slowest` is the seconds that took to be over.
killed_midway() {
    local victim=$1 node_0=$2 node_1=$3
    shift 3
    rm -f "$OUT/killed"
    two_nodes "$node_0" "$node_1" sh -c '
        [ "$RANK" = '"$victim"' ] || exec "$@"
        "$@" &
        until [ "$(grep -c Loss "$OUT/node_0")" -ge 2 ] || ! kill -0 $!; do sleep 0.05; done
        date +%s > "$OUT/killed" && kill -KILL $! && exit 5' sh "$@"
    slowest=$(($(cat "$OUT/ended_0" "$OUT/ended_1" | sort -n | tail -n 1) - $(cat "$OUT/killed")))
}

# torchrun always returns 1; ddprun returns its own rank's status, or 1 if another node failed.
@test "a rank that is killed midway, on either side, ends both at once" {
    train="03_torchrun_env/train 100000000 --model linear --batch-size 4 --log-interval 1 --checkpoint-dir $OUT/c"
    for victim in 0 1; do
        killed_midway $victim torchrun ddprun $train
        [ "$status_0 $status_1" = "1 $((victim == 1 ? 5 : 1))" ]
        [ "$slowest" -le 120 ]
        killed_midway $victim ddprun torchrun $train
        [ "$status_0 $status_1" = "$((victim == 0 ? 5 : 1)) 1" ]
        [ "$slowest" -le 120 ]
    done
}

@test "the same with a PyTorch program" {
    killed_midway 1 ddprun torchrun python tests/against/torchrun/launchers_trainer.py 1000000
    [ "$status_0 $status_1" = "1 1" ]
    [ "$slowest" -le 120 ]
    killed_midway 1 torchrun ddprun python tests/against/torchrun/launchers_trainer.py 1000000
    [ "$status_0 $status_1" = "1 5" ]
    [ "$slowest" -le 120 ]
}

@test "a torchrun whose rank fails before the group has formed is missed" {
    two_nodes ddprun torchrun sh -c '[ "$RANK" = 0 ] && exec sleep 1000; date +%s > "$OUT/killed"; exit 5'
    [ "$status_0 $status_1" = "1 1" ]
    grep -q "node 1 has hung up before the job was over" "$OUT/node_0.err"
    [ $(($(cat "$OUT/ended_0") - $(cat "$OUT/killed"))) -le 120 ]
}

# A static torchrun on node 0 is not informed, and waits for its own rank.
@test "our node does not wait for a torchrun that does not know of its failure" {
    two_nodes torchrun "ddprun --shutdown-timeout 300" sh -c '
        [ "$RANK" = 1 ] && date +%s > "$OUT/killed" && exit 5
        until [ -s "$OUT/ended_1" ]; do sleep 0.1; done; exit 3'
    [ "$status_0 $status_1" = "1 5" ]
    [ $(($(cat "$OUT/ended_1") - $(cat "$OUT/killed"))) -le 120 ]
}
