#!/usr/bin/env bats
# Real PyTorch's losses, step by step, from the CUDA device on the stand-in (tests/cuda/stand_in.sh).

compare() {
    options=$1
    shift
    TEST_OPTIONS="--device cuda $options" run tests/golden_losses.py "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "linear: PyTorch's losses and weights" {
    compare '' linear_sgd_w1 01_single_gpu/run.sh
}

@test "cnn on digits: PyTorch's losses, 60 steps" {
    compare '' digits_sgd_w1 01_single_gpu/run.sh
}

@test "cnn on digits with momentum, as a graph: PyTorch's losses" {
    compare '--cuda-graph on' digits_momentum_w1 01_single_gpu/run.sh
}

@test "cnn on digits, 2 ranks that share a GPU through the host: PyTorch's losses" {
    compare '--backend tcp' digits_sgd_w2 03_torchrun_env/run.sh
}
