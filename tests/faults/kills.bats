#!/usr/bin/env bats
# Anything killed at any time and restarted: the final file is that of an undisturbed run.

load faults_helper

# same_after_kills MODEL_DATASET RANKS OPTIONS...
same_after_kills() {
    local file=$1.safetensors
    shift
    undisturbed "$OUT/straight" "$@" --save-every-steps 0
    disturbed "$OUT/killed" "$@"
    echo "killed $kills times, SEED=$SEED"
    [ "$kills" -ge 1 ] # as a rule MOST_KILLS, unless this test was kept waiting until the run was over
    cmp "$OUT/straight/$file" "$OUT/killed/$file"
}

@test "linear, sgd with momentum, 2 ranks" {
    MOST_KILLS=12 same_after_kills linear_random 2 --model linear --momentum 0.9 --epochs 800 --save-every-steps 13
}

@test "linear, adam, 3 ranks, a snapshot after every step" {
    same_after_kills linear_random 3 --model linear --optimizer adam --epochs 40 --save-every-steps 1 --keep 1
}

@test "cnn, sgd with momentum and dropout, 2 ranks" {
    same_after_kills cnn_digits 2 --epochs 3 --save-every-steps 4 --save-every 1
}

@test "cnn, adam, 1 rank" {
    same_after_kills cnn_digits 1 --epochs 2 --num-samples 960 --optimizer adam --save-every-steps 3
}

@test "killed at the end of an epoch, before its evaluation: that is made up for" {
    options="--num-samples 320 --epochs 2 --save-every 1 --save-every-steps 5" # 5 steps each
    undisturbed "$OUT/c" 2 $options
    rm "$OUT"/c/cnn_digits* "$OUT"/c/epoch_2*
    tested=$(grep '^Test Epoch: 1' <<<"$output")
    undisturbed "$OUT/c" 2 $options
    [[ $output == *"resumes from $OUT/c/snapshot_e1_s10.safetensors: epoch 1, step 10"* ]]
    [ "$(grep -c '^Train Epoch' <<<"$output")" -eq 0 ]
    [ "$(grep '^Test Epoch' <<<"$output")" = "$tested" ]
    [ -e "$OUT/c/epoch_2.safetensors" ] && [ -e "$OUT/c/cnn_digits.safetensors" ]
}

@test "torchrun: a rank that is killed is started again, with all others, and goes on" {
    PATH=$PATH${TORCH_BIN:+:$TORCH_BIN}
    command -v torchrun >/dev/null || skip "no torchrun"
    options="--model linear --epochs 400 --save-every 0 --save-every-steps 200"
    undisturbed "$OUT/straight" 2 $options --save-every-steps 0
    # Slow at first, so that it is not done before it is killed.
    LAUNCHER=torchrun MAX_RESTARTS=2 $RUN 2 $options --inject slow:0:1:2 --checkpoint-dir "$OUT/c" >"$OUT/said" 2>&1 3>&- &
    job=$!
    until_true 250 grep -qs 'snapshot saved' "$OUT/said"
    kill -KILL "$(rank_pid 1)"
    status=0
    wait $job || status=$?
    cat "$OUT/said"
    [ "$status" -eq 0 ]
    grep -q 'resumes from .*: epoch' "$OUT/said"
    cmp "$OUT/straight/linear_random.safetensors" "$OUT/c/linear_random.safetensors"
}
