#!/usr/bin/env bats
# --conv cudnn on the stand-in, whose cuDNN lists algorithms that must not be taken before a good one
# (tests/cuda_stand_in/cudnn.c).
load ../helpers/training

setup() {
    scratch=$BATS_TEST_TMPDIR
}

# train DIR OPTIONS...: eight steps of 01.
train() {
    dir=$scratch/$1
    shift
    run timeout 900 01_single_gpu/run.sh 1 0 --num-samples 46 --batch-size 4 --device cuda --checkpoint-dir "$dir" \
        --metrics-dir "$dir" --max-steps 8 "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "convolutions and their gradients are those of loops in double, pooled or not, of every shape" {
    TEST_CONV=cudnn run "${BUILD:-build}/tests/common/nn/test_conv"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "cnn on digits: PyTorch's losses, 60 steps" {
    TEST_OPTIONS="--device cuda --conv cudnn" run tests/golden_losses.py digits_sgd_w1 01_single_gpu/run.sh
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "bf16 between the layers: the losses of PyTorch's autocast, 60 steps, also as a graph" {
    for graph in off on; do
        TEST_OPTIONS="--device cuda --conv cudnn --amp bf16 --cuda-graph $graph" \
            run tests/golden_losses.py digits_autocast_w1 01_single_gpu/run.sh
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "float32, tf32, bf16 and fp16: as near to im2col's losses as their rounding allows, and not nearer" {
    train im2col --dropout off --conv im2col
    train fp32 --dropout off --conv cudnn
    losses_near fp32 im2col 1e-5
    for way in "tf32 2e-2 1e-7 --tf32 on" "fp16 2e-2 1e-7 --amp fp16" "bf16 5e-2 1e-5 --amp bf16"; do
        read -r name tolerance least options <<<"$way"
        train "$name" --dropout off --conv cudnn $options
        losses_near "$name" im2col "$tolerance" "$least"
        train "$name-im2col" --dropout off $options
        losses_near "$name" "$name-im2col" "$tolerance"
    done
}

@test "the same bits in whatever order the work is done, and as a graph" {
    for amp in off bf16; do
        CUDA_STAND_IN_SEED=0 train "$amp-0" --conv cudnn --amp $amp
        CUDA_STAND_IN_SEED=1 train "$amp-1" --conv cudnn --amp $amp
        train "$amp-graph" --conv cudnn --amp $amp --cuda-graph on
        cmp "$scratch/$amp-0/cnn_digits.safetensors" "$scratch/$amp-1/cnn_digits.safetensors"
        cmp "$scratch/$amp-0/cnn_digits.safetensors" "$scratch/$amp-graph/cnn_digits.safetensors"
    done
}

@test "a build with CUDNN=0 trains, refuses --conv cudnn in a line, and make doctor says so" {
    make -s MPI=0 CUDA=1 CUDA_HOME="$PWD/toolkit" CUDA_ARCH=all-major CUDNN=0 BUILD=build/no_cudnn \
        gpu-test PROGRAM="$BATS_TEST_TMPDIR/train" SOURCE=01_single_gpu/train.c
    run "$BATS_TEST_TMPDIR/train" 1 0 --device cuda --max-steps 2 --checkpoint-dir "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 0 ]
    run "$BATS_TEST_TMPDIR/train" 1 0 --device cuda --conv cudnn --checkpoint-dir "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 2 ]
    [[ $output == *"--conv cudnn: this build has no cuDNN part (cudnn.h); leave it out"* ]]
    BUILD=build/no_cudnn make -s doctor ARGS=--all | grep -E "^no +in this build +MPI=0 CUDNN=0; to build a part in: make"
}

@test "auto is im2col: the same bits, without cuDNN too; cudnn without it is one line" {
    train auto
    train im2col --conv im2col
    cmp "$scratch/auto/cnn_digits.safetensors" "$scratch/im2col/cnn_digits.safetensors"

    # A library that cannot be opened: this machine may have a real one where the loader looks next.
    library=toolkit/lib64/libcudnn.so.9
    mv "$library" "$scratch/aside"
    : >"$library"
    train without --conv auto
    run 01_single_gpu/run.sh 1 0 --device cuda --conv cudnn
    mv "$scratch/aside" "$library"
    echo "$output"
    [ "$status" -ne 0 ]
    [ "$(grep -c . <<<"$output")" -eq 1 ]
    [[ $output == *"--conv cudnn: "*"libcudnn.so.9: "*"; install it, or put its folder into LD_LIBRARY_PATH"* ]]
    cmp "$scratch/auto/cnn_digits.safetensors" "$scratch/without/cnn_digits.safetensors"
}
