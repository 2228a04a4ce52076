#!/usr/bin/env bats
# A step has the number of kernels that bench/gpu_model.py predicts; the stand-in counts those that its GPU has run.

# launched STEPS BATCH OPTIONS...: how many kernels a run of 01 has in all, in an L2 cache of 16 MiB.
launched() {
    local steps=$1 batch=$2 dir
    shift 2
    dir=$(mktemp -d -p "$BATS_TEST_TMPDIR")
    CUDA_STAND_IN_L2_MIB=16 CUDA_STAND_IN_LAUNCHES=$dir/launches timeout 600 01_single_gpu/train 1 0 --device cuda \
        --num-samples $((10 * batch)) --batch-size "$batch" --max-steps "$steps" --checkpoint-dir "$dir" "$@" >&2
    cat "$dir/launches"
}

# compare BATCH STEP OPTIONS...: that step, in both precisions and by both ways: what a run with it has more.
compare() {
    local batch=$1 step=$2 lines precision amp conv im2col cudnn counted
    shift 2
    lines=$(bench/gpu_model.py 16 "$batch" | tail -n +2)
    [ "$(wc -l <<<"$lines")" -eq 2 ]
    # shellcheck disable=SC2034 # both are read by name
    while read -r _ precision im2col cudnn _; do
        amp=${precision/fp32/off}
        for conv in im2col cudnn; do
            launched $((step - 1)) "$batch" --amp "$amp" --conv $conv "$@" >"$BATS_TEST_TMPDIR/without" &
            launched "$step" "$batch" --amp "$amp" --conv $conv "$@" >"$BATS_TEST_TMPDIR/with"
            wait $!
            counted=$(($(<"$BATS_TEST_TMPDIR/with") - $(<"$BATS_TEST_TMPDIR/without")))
            echo "batch $batch, $precision, $conv: $counted launches, by formula ${!conv}"
            [ "$counted" -eq "${!conv}" ]
        done
    done <<<"$lines"
}

@test "a batch of 8, which is one chunk, from a graph: as many launches as by formula" {
    compare 8 6 --cuda-graph on
}

@test "a batch of 130, in up to 11 chunks: as many launches as by formula" {
    compare 130 2
}
