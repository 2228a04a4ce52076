#!/usr/bin/env bats
# Ranks with --device cuda on the stand-in: the CPU's numbers, whichever way the gradients go.
load ../helpers/training

setup() {
    scratch=$BATS_TEST_TMPDIR
    export CUDA_STAND_IN_DEVICES=2
}

# train DIR RANKS OPTIONS...: a few steps of 03, whose losses go to DIR.
train() {
    dir=$scratch/$1 ranks=$2
    shift 2
    run timeout 400 03_torchrun_env/run.sh "$ranks" --num-samples 100 --epochs 2 --batch-size 10 --save-every 0 \
        --checkpoint-dir "$dir" --metrics-dir "$dir" "$@"
    echo "$output"
}

@test "over nccl, in graphs too, and over tcp two GPUs give the losses of two CPUs" {
    train cpu 2 --device cpu
    train nccl 2 --device cuda
    [ "$status" -eq 0 ]
    train graph 2 --device cuda --cuda-graph on
    [ "$status" -eq 0 ]
    train tcp 2 --device cuda --backend tcp
    [ "$status" -eq 0 ]
    losses_near nccl cpu 1e-4
    losses_near tcp cpu 1e-4
    cmp "$scratch/nccl/cnn_digits.safetensors" "$scratch/graph/cnn_digits.safetensors"
    cmp "$scratch/nccl/rank1.jsonl" "$scratch/graph/rank1.jsonl"
}

@test "ranks share a GPU over tcp, by themselves too; over nccl they are told so, status 2" {
    export CUDA_STAND_IN_DEVICES=1
    train shared 2 --device cuda --backend tcp
    [ "$status" -eq 0 ]
    train auto 2
    [ "$status" -eq 0 ]
    [ "$(grep -c 'ranks 0 and 1 share GPU-.*, which nccl does not allow: --backend tcp takes' <<<"$output")" -eq 1 ]
    cmp "$scratch/shared/cnn_digits.safetensors" "$scratch/auto/cnn_digits.safetensors"
    train refused 2 --device cuda --backend nccl
    [ "$status" -eq 2 ]
    [[ $output == *"--backend nccl wants a GPU for each rank, but ranks 0 and 1 share GPU-"* ]]
    [ "$(grep -c 'wants a GPU' <<<"$output")" -eq 1 ]
}

@test "ranks that outnumber the GPUs wrap around them over tcp; over nccl they are told so, status 2" {
    train cpu 3 --device cpu
    train wrapped 3 --device cuda --backend tcp
    [ "$status" -eq 0 ]
    [ "$(grep -c '^.rank 0/3. 3 ranks share the 2 GPUs of this node$' <<<"$output")" -eq 1 ]
    losses_near wrapped cpu 1e-4
    train refused 3 --device cuda
    [ "$status" -eq 2 ]
    [ "$(grep -c -- '--device cuda: 3 ranks on this node, but 2 GPUs; start 2 ranks per node, or use --backend tcp' \
        <<<"$output")" -eq 1 ]
}

@test "without a number there are as many ranks as GPUs that CUDA shows, else 2" {
    export CUDA_STAND_IN_DEVICES=4 linear="--model linear --max-steps 1 --checkpoint-dir $scratch"
    for step in 02_multi_gpu_spawn 03_torchrun_env 05_fault_tolerance; do
        CUDA_VISIBLE_DEVICES=0,2,3 run timeout 400 $step/run.sh $linear
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -c '^.GPU[012]. Epoch 0 ' <<<"$output")" -eq 3 ]
        CUDA_VISIBLE_DEVICES= run timeout 400 $step/run.sh $linear
        [ "$(grep -c '^.CPU[01]. Epoch 0 ' <<<"$output")" -eq 2 ]
    done
}

@test "graphs record no detour through the host, status 2" {
    train refused 2 --device cuda --backend tcp --cuda-graph on
    [ "$status" -eq 2 ]
    [[ $output == *"--cuda-graph on needs --backend nccl"* ]]
}
