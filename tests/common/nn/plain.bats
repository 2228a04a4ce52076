#!/usr/bin/env bats
# --device plain: the tests that every device passes, and real PyTorch's losses.

@test "plain passes the tests of the devices, those of fixed orders of sums, too" {
    for test in device optim model gradients reduce_order rows_alone; do # test_kernels and test_conv take it by themselves
        TEST_DEVICE=plain run "${BUILD:-build}/tests/common/nn/test_$test"
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "plain gives PyTorch's losses" {
    export TEST_OPTIONS="--device plain"
    tests/golden_losses.py linear_sgd_w1 01_single_gpu/run.sh
    tests/golden_losses.py digits_sgd_w2 03_torchrun_env/run.sh
    TEST_STEPS=20 tests/golden_losses.py digits_sgd_w1 01_single_gpu/run.sh # those with the smallest tolerance
}

@test "plain has no fp16 and no tf32, nor bf16 without extras: exit status 2 and a line that says so" {
    without=$(sed -n 's/^EXTRAS=0$/--amp bf16/p' "${BUILD:-build}/parts")
    for options in ${without:+"$without"} "--amp fp16" "--tf32 on"; do
        run 01_single_gpu/train --device plain $options
        echo "$output"
        [ "$status" -eq 2 ]
        [ "${#lines[@]}" -eq 1 ]
    done
}
