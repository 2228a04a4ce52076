#!/usr/bin/env bats
# The curves for TensorBoard, beside the lines of --metrics-dir.

@test "each attempt after a failure writes a file of curves of its own" {
    metrics=$BATS_TEST_TMPDIR/metrics
    MAX_RESTARTS=1 05_fault_tolerance/run.sh 2 --model linear --num-samples 256 --epochs 2 --save-every 0 --save-every-steps 2 \
        --inject kill:1:6 --checkpoint-dir "$BATS_TEST_TMPDIR/saved" --metrics-dir "$metrics"
    [ "$(ls "$metrics" | grep -c tfevents)" -eq 2 ]
}
