#!/usr/bin/env bats
# --conv without a GPU. What it does with one is tried on a stand-in (tests/cuda/cudnn.bats).

@test "a CPU has no other convolutions: exit status 2 and a line that says so" {
    for conv in im2col cudnn; do
        run 01_single_gpu/train --device cpu --conv $conv
        echo "$output"
        [ "$status" -eq 2 ]
        [ "$output" = "train: --conv $conv is for GPUs: leave it out, or use --device cuda" ]
    done
    run 01_single_gpu/train --device cpu --conv auto --model linear --max-steps 1 --checkpoint-dir "$BATS_TEST_TMPDIR"
    [ "$status" -eq 0 ]
}
