#!/usr/bin/env bats
# --metrics-dir in runs that end early, are resumed, or have no group: each step appears once.

setup() {
    metrics=$BATS_TEST_TMPDIR/metrics saved=$BATS_TEST_TMPDIR/saved
}

# steps FILE: the steps it has, as "1 2 3".
steps() {
    jq -r .step "$metrics/$1" | tr '\n' ' ' | sed 's/ $//'
}

train() {
    05_fault_tolerance/run.sh "$@" --model linear --num-samples 256 --epochs 2 --save-every 0 \
        --checkpoint-dir "$saved" --metrics-dir "$metrics"
}

@test "a run that goes on takes its metrics up where its snapshot was taken" {
    train 2 --max-steps 5
    [ "$(steps rank1.jsonl)" = "1 2 3 4 5" ]
    cp "$metrics/rank1.jsonl" "$BATS_TEST_TMPDIR/before"
    # Steps after the last snapshot, which will be trained again.
    echo '{"epoch":1,"step":6,"rank":1,"loss":99}' >>"$metrics/rank1.jsonl"
    for step in 4 5 6; do echo "{\"epoch\":0,\"step\":$step,\"rank\":2,\"loss\":1}"; done >"$metrics/rank2.jsonl" # of a larger group
    train 2
    for rank in 0 1; do [ "$(steps rank$rank.jsonl)" = "1 2 3 4 5 6 7 8" ]; done
    grep -qx EXTRAS=0 "${BUILD:-build}/parts" || [ "$(steps rank2.jsonl)" = "4 5" ]
    ! grep -q ':99}' "$metrics/rank1.jsonl" || false
    head -n 5 "$metrics/rank1.jsonl" | cmp - "$BATS_TEST_TMPDIR/before"
}

@test "an attempt after a failure leaves the same metrics as a run without one" {
    train 2
    mv "$metrics" "$BATS_TEST_TMPDIR/smooth"
    rm -r "$saved"
    MAX_RESTARTS=1 train 2 --save-every-steps 2 --inject kill:1:6
    for rank in 0 1; do cmp "$metrics/rank$rank.jsonl" "$BATS_TEST_TMPDIR/smooth/rank$rank.jsonl"; done
}

@test "lonely ranks, which share nothing, each have a file" {
    STAGE=a 02_multi_gpu_spawn/run.sh 2 --model linear --max-steps 3 --epochs 1 --checkpoint-dir "$saved" \
        --metrics-dir "$metrics"
    for rank in 0 1; do [ "$(steps rank$rank.jsonl)" = "1 2 3" ]; done
    [ "$(head -n 1 "$metrics/rank0.jsonl" | jq .loss)" != "$(head -n 1 "$metrics/rank1.jsonl" | jq .loss)" ]
}

@test "a loss that is no number is nan in all lines, as PyTorch prints it" {
    03_torchrun_env/run.sh 2 1 0 --lr 1000 --max-steps 11 --on-nan warn --checkpoint-dir "$saved" >"$BATS_TEST_TMPDIR/printed"
    grep -q "^Train Epoch: .* Loss: nan$" "$BATS_TEST_TMPDIR/printed"
    grep -q "^Test Epoch: .* Loss: nan " "$BATS_TEST_TMPDIR/printed"
}

@test "a loss that is no number is null in the file, and a gap in the plot" {
    01_single_gpu/run.sh --model linear --lr 1000 --epochs 1 --max-steps 30 --on-nan warn --checkpoint-dir "$saved" \
        --metrics-dir "$metrics"
    [ "$(tail -n 1 "$metrics/rank0.jsonl")" = '{"epoch":0,"step":30,"rank":0,"loss":null}' ]
    tools/plot.sh "$metrics"
    # If one rank has lost a step, the other's loss is not the group's, so the picture omits it.
    for loss in 7 8; do
        for step in 1 2 3 4 5; do echo "{\"step\":$step,\"loss\":1}"; done >"$metrics/rank1.jsonl"
        sed "3s/1}/$loss}/" "$metrics/rank1.jsonl" >"$metrics/rank0.jsonl"
        sed -i '3s/1}/null}/' "$metrics/rank1.jsonl"
        tools/plot.sh "$metrics"
        mv "$metrics/plot.svg" "$BATS_TEST_TMPDIR/$loss.svg"
    done
    cmp "$BATS_TEST_TMPDIR/7.svg" "$BATS_TEST_TMPDIR/8.svg"
}
