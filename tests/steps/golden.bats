#!/usr/bin/env bats
# Real PyTorch's losses, step by step and rank by rank (on MNIST: tests/mnist/golden.bats).

compare() {
    run tests/golden_losses.py "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a name without losses is refused in one line that lists those there are" {
    run tests/golden_losses.py nosuch_w1 01_single_gpu/run.sh
    echo "$output"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *nosuch_w1*" digits_sgd_w1 "* ]]
}

@test "linear, 1 rank: 01, 02 and 03 give PyTorch's losses and weights" {
    compare linear_sgd_w1 01_single_gpu/run.sh 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "linear, 2 ranks: 02 and 03 give PyTorch's losses and weights" {
    compare linear_sgd_w2 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "linear, 4 ranks: 02 and 03 give PyTorch's losses and weights" {
    compare linear_sgd_w4 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn on digits, 1 rank: 01, 02 and 03 give PyTorch's losses" {
    compare digits_sgd_w1 01_single_gpu/run.sh
    TEST_STEPS=20 compare digits_sgd_w1 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh # those with the smallest tolerance
}

@test "cnn on digits with momentum, 1 rank: 01, 02 and 03 give PyTorch's losses" {
    compare digits_momentum_w1 01_single_gpu/run.sh
    TEST_STEPS=20 compare digits_momentum_w1 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn on digits, 2 ranks: 02 and 03 give PyTorch's losses" {
    compare digits_sgd_w2 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn on digits, 4 ranks: 02 and 03 give PyTorch's losses" {
    compare digits_sgd_w4 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "stage c is as exact as the reducer" {
    STAGE=c compare digits_sgd_w2 02_multi_gpu_spawn/run.sh
}
