#!/usr/bin/env bats
# The asides train_bf16_hook and train_power_sgd: what they learn, and what they send.
load ../helpers/training
load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$BATS_TEST_TMPDIR
}

# train PROGRAM OPTIONS...: with files in $scratch/NAME.
train() {
    local program=$1
    shift
    run timeout 300 "$program" --nproc 2 --threads 1 --device cpu --save-every 0 --dropout off --checkpoint-dir "$scratch/${program##*/}" "$@"
    [ "$status" -eq 0 ] || { echo "$program: $output" && return 1; }
}

@test "bf16 stays near DDP, and is not the same" {
    train 02_multi_gpu_spawn/train "${few[@]}" --max-steps 8 --batch-size 8
    train beyond/comm_hooks/train_bf16_hook "${few[@]}" --max-steps 8 --batch-size 8
    near "$scratch/train_bf16_hook/cnn_mnist.safetensors" "$scratch/train/cnn_mnist.safetensors" 0.01
    cmp -s "$scratch/train_bf16_hook/cnn_mnist.safetensors" "$scratch/train/cnn_mnist.safetensors" && return 1
    true
}

@test "PowerSGD begins with the tenth step, and sends what is too small as it is" {
    train 02_multi_gpu_spawn/train "${few[@]}" --max-steps 10 --batch-size 8
    train beyond/comm_hooks/train_power_sgd "${few[@]}" --max-steps 10 --batch-size 8
    cmp "$scratch/train_power_sgd/cnn_mnist.safetensors" "$scratch/train/cnn_mnist.safetensors"
    train 02_multi_gpu_spawn/train --model linear --max-steps 20
    train beyond/comm_hooks/train_power_sgd --model linear --max-steps 20
    cmp "$scratch/train_power_sgd/linear_random.safetensors" "$scratch/train/linear_random.safetensors"
}

@test "PowerSGD learns" {
    train beyond/comm_hooks/train_power_sgd --epochs 2
    [ "$(sed -n 's/^Test Epoch: 1 .*Accuracy: \([0-9]*\).*/\1/p' <<<"$output")" -ge 70 ]
}
