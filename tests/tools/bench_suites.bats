#!/usr/bin/env bats
# The programs that bench/suites/training*.py start: they end, and print the figures they are to print.

bats_require_minimum_version 1.5.0
BUILD=${BUILD:-build}

setup_file() {
    make -s "$BUILD"/bench/cnn_step "$BUILD"/bench/linear_step "$BUILD"/bench/ddp_step
    export TORCH_VENV=${TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/torch-venv}
    export TORCH_BIN=${TORCH_BIN:-$TORCH_VENV/bin} OMP_NUM_THREADS=1
}

pytorch() {
    [ -x "$TORCH_BIN/python" ] || skip "no PyTorch: make check-torch gets it"
}

# figures LINES COMMAND...: a line "CASE UNIT" for each figure that the command prints, and no others.
figures() {
    expected=$1
    shift
    run --separate-stderr timeout 300 "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | python3 -c '
import json, sys
for line in sys.stdin:
    figure = json.loads(line)
    assert set(figure) == {"case", "value", "unit"} and figure["value"] > 0
    print(figure["case"], figure["unit"])')" = "$expected" ]
}

@test "cnn_step: one figure, named as PyTorch's" {
    figures "batch 32, 1 thread, fp32 samples/s" \
        "$BUILD/bench/cnn_step" --device cpu --batch-size 32 --threads 1 --max-steps 3
}

# bats test_tags=slow
@test "cnn_step.py names its figures as ours" {
    pytorch
    figures "batch 2, 1 thread, bf16 samples/s" "$TORCH_BIN/python" bench/cnn_step.py 2 1 8 bf16
}

# bats test_tags=slow
@test "linear_step and linear_step.py do the same work: the losses are equal" {
    figures "linear model, batch 32 steps/s" "$BUILD/bench/linear_step" 3
    # shellcheck disable=SC2154 # bats sets stderr
    loss=${stderr#*loss }
    pytorch
    figures "linear model, batch 32 steps/s" "$TORCH_BIN/python" bench/linear_step.py 3
    echo "$loss, PyTorch ${stderr#*loss }"
    awk -v a="$loss" -v b="${stderr#*loss }" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 <= (1e-6 * b) ^ 2) }'
}

@test "ddp_step: two ranks, together, without the thread, alone and in step" {
    for mode in "" caller alone in-step; do
        figures "2 ranks samples/s
2 ranks, processor's time of a step ms" \
            03_torchrun_env/ddprun --nproc-per-node 2 "$BUILD/bench/ddp_step" 2 $mode
    done
}

@test "milestones: the first step and the memory of a run; an accuracy that is never reached" {
    train="01_single_gpu/train --device cpu --threads 1 --num-samples 64 --checkpoint-dir {folder} --save-every 0"
    # shellcheck disable=SC2086
    figures "digits, first step s
digits, peak memory MB" python3 bench/milestones.py digits start $train --max-steps 1
    # shellcheck disable=SC2086
    run python3 bench/milestones.py digits 100 $train --epochs 1
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"100 % was not reached in 1 epochs"* ]]
}
