#!/usr/bin/env bats
# The programs with --device cuda on the stand-in: the CPU's numbers, the same bits in whatever order
# the work of the streams is done, and graphs that replay what they recorded.
load ../helpers/training

setup() {
    scratch=$BATS_TEST_TMPDIR
}

# train DIR OPTIONS...: eight steps of 01, or fewer.
train() {
    dir=$scratch/$1
    shift
    run timeout 900 01_single_gpu/run.sh 1 0 --num-samples 128 --batch-size 16 --checkpoint-dir "$dir" \
        --metrics-dir "$dir" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the GPU starts with the CPU's weights, and reads its checkpoints" {
    for device in cpu cuda; do
        run 01_single_gpu/run.sh 0 --device $device --checkpoint-dir "$scratch/$device"
        [ "$status" -eq 0 ]
    done
    cmp "$scratch/cpu/epoch_0.safetensors" "$scratch/cuda/epoch_0.safetensors"
    train trained --device cpu --optimizer adam
    for device in cpu cuda; do
        train $device --device $device --init-from "$scratch/trained/cnn_digits.safetensors" --max-steps 1
        echo "$output" | grep '^Test Epoch' >"$scratch/$device.line"
    done
    cmp "$scratch/cpu.line" "$scratch/cuda.line"
}

@test "every optimizer gives the CPU's losses, with dropout" {
    for optimizer in sgd adam adamw adadelta; do
        train cpu-$optimizer --device cpu --optimizer $optimizer
        train cuda-$optimizer --device cuda --optimizer $optimizer
        losses_near cpu-$optimizer cuda-$optimizer 5e-3
    done
}

@test "the same bits in whatever order the work is done" {
    for seed in 0 1; do
        CUDA_STAND_IN_SEED=$seed train $seed --device cuda --momentum 0.9
        cmp "$scratch/0/cnn_digits.safetensors" "$scratch/$seed/cnn_digits.safetensors"
    done
}

@test "a graph gives the same bits as the calls it recorded, dropout and adam's steps too" {
    for optimizer in sgd adam; do
        for graph in off on; do
            train $graph-$optimizer --device cuda --cuda-graph $graph --optimizer $optimizer --num-samples 46 \
                --batch-size 4
        done
        jq .loss "$scratch/off-$optimizer/rank0.jsonl" >"$scratch/off"
        jq .loss "$scratch/on-$optimizer/rank0.jsonl" | cmp - "$scratch/off"
    done
}

@test "a graph reads the rate of its step and clips: the bits of the calls, and the CPU's losses" {
    for optimizer in sgd adamw; do
        recipe="--optimizer $optimizer --lr-schedule cosine --warmup-steps 5 --clip-norm 0.5 --num-samples 46 --batch-size 4"
        for graph in off on; do
            train $graph-$optimizer --device cuda --cuda-graph $graph $recipe
        done
        cmp "$scratch/off-$optimizer/cnn_digits.safetensors" "$scratch/on-$optimizer/cnn_digits.safetensors"
        train cpu-$optimizer --device cpu $recipe
        losses_near on-$optimizer cpu-$optimizer 5e-3
    done
}

@test "fp16 clips by the norm of gradients without their scale" {
    recipe="--dropout off --clip-norm 0.5 --lr 0.05"
    train fp32 --device cuda $recipe
    train fp16 --device cuda --amp fp16 $recipe
    losses_near fp16 fp32 2e-2 1e-7
}

@test "tf32, bf16 and fp16 are near float32, and not nearer than they can be" {
    train fp32 --device cuda --dropout off
    train tf32 --device cuda --dropout off --tf32 on
    train bf16 --device cuda --dropout off --amp bf16
    train fp16 --device cuda --dropout off --amp fp16
    losses_near tf32 fp32 2e-2 1e-7
    losses_near fp16 fp32 2e-2 1e-7
    losses_near bf16 fp32 5e-2 1e-5
}

@test "each rank of 02 has the GPU of its local rank" {
    CUDA_STAND_IN_DEVICES=2 STAGE=a run timeout 900 02_multi_gpu_spawn/run.sh --model linear --max-steps 3 \
        --checkpoint-dir "$scratch"
    echo "$output"
    [ "$status" -eq 0 ]
    for rank in 0 1; do
        [ "$(echo "$output" | grep -c "^\[GPU$rank\] Epoch 0 ")" -eq 1 ]
    done
}

@test "without a GPU auto is the CPU, and cuda is refused" {
    CUDA_STAND_IN_DEVICES=0 train auto --max-steps 1
    [[ $output == *"[CPU0] Epoch 0"* ]]
    CUDA_STAND_IN_DEVICES=0 run 01_single_gpu/run.sh --device cuda
    [ "$status" -eq 2 ]
    [ "$output" = "train: --device cuda: there is no GPU to be used here: no CUDA-capable device is detected (see nvidia-smi); use --device cpu, or leave it out" ]
}

@test "no code for this GPU, or PTX that its driver does not take: what to build" {
    for error in 209 222; do
        CUDA_STAND_IN_LOAD=$error run 01_single_gpu/run.sh --device cuda --max-steps 1 --checkpoint-dir "$scratch"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *": build it here, or with make CUDA_ARCH=all-major" ]]
    done
    [[ $output == *"the provided PTX was compiled with an unsupported toolchain."* ]]
}

@test "a fixed order of sums is the CPU's: auto takes it, and cuda says so, status 2" {
    run timeout 900 05_fault_tolerance/run.sh 1 --model linear --reduce-order fixed --max-steps 1 --checkpoint-dir "$scratch"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"[CPU0] Epoch 0"* ]]
    run timeout 900 05_fault_tolerance/run.sh 1 --model linear --reduce-order fixed --device cuda
    [ "$status" -eq 2 ]
    [[ $output == *"--reduce-order fixed is not for GPUs, whose products add up in an order of cuBLAS's: use --device cpu"* ]]
}
