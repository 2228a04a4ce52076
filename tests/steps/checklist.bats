#!/usr/bin/env bats
# The checklist of a DDP trainer: one test for each requirement (make checklist ticks them off).

load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$(mktemp -d)
}

teardown() {
    rm -rf "$scratch"
}

# Runs step 03 on some ranks, briefly, and keeps stdout in $output.
train() {
    run timeout 300 03_torchrun_env/run.sh "$1" "${few[@]}" "${@:2}" --checkpoint-dir "$scratch/checkpoints"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "DDP-01 process group initialised with the backend asked for" {
    train 2 --max-steps 1 --backend tcp
    run timeout 300 02_multi_gpu_spawn/run.sh 2 --max-steps 1 --backend mpi
    [ "$status" -eq 2 ] # refused, not quietly replaced: nobody started MPI
}

@test "DDP-02 each process uses the device of its LOCAL_RANK" {
    train 2 --max-steps 1 --device cpu
    echo "$output" | grep -q '^\[CPU0\] Epoch 0'
    echo "$output" | grep -q '^\[CPU1\] Epoch 0'
    grep -q 'device_init(&device, args, local_rank)' 03_torchrun_env/train.c
}

@test "DDP-03 rank 0's state reaches all, replicas identical" {
    build=${BUILD:-build}
    CMOCKA_TEST_FILTER='replicas*' CMOCKA_MESSAGE_OUTPUT=TAP run "$build/tests/common/comm/test_replicas"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "DDP-04 data sharded by DistributedSampler" {
    for rank in 0 1 2; do
        tools/shards --size 1437 --world-size 3 --rank $rank --seed 0 --epoch 4
    done | sort -n | uniq -c >"$scratch/dealt"
    [ "$(wc -l <"$scratch/dealt")" -eq 1437 ]        # every row
    [ "$(awk '$1 != 1' "$scratch/dealt" | wc -l)" -eq 0 ] # exactly once
}

@test "DDP-05 set_epoch: orders differ between epochs, agree between ranks" {
    for epoch in 0 1; do
        tools/shards --size 100 --world-size 2 --rank 0 --epoch $epoch >"$scratch/$epoch.0"
        tools/shards --size 100 --world-size 2 --rank 1 --epoch $epoch >"$scratch/$epoch.1"
        tools/shards --size 100 --world-size 1 --rank 0 --epoch $epoch >"$scratch/$epoch"
        paste -d '\n' "$scratch/$epoch.0" "$scratch/$epoch.1" | cmp - "$scratch/$epoch"
    done
    ! cmp -s "$scratch/0" "$scratch/1" || false
    for program in 02_multi_gpu_spawn/train.c 03_torchrun_env/train.c 05_fault_tolerance/train.c; do
        grep -q 'sampler_set_epoch(&sampler, epoch)' "$program"
    done
}

@test "DDP-06 gradients averaged automatically, overlapping the backward pass" {
    build=${BUILD:-build}
    CMOCKA_TEST_FILTER='reducer_sends*' CMOCKA_MESSAGE_OUTPUT=TAP run "$build/tests/common/comm/test_replicas"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "DDP-07 only rank 0 logs results to the console" {
    train 3 --max-steps 2 --log-interval 1
    [ "$(echo "$output" | grep -c '^Train Epoch: 0 \[0/256\]')" -eq 1 ]
    [ "$(echo "$output" | grep -c '^Test Epoch: 0')" -eq 1 ]
}

@test "DDP-08 only rank 0 saves checkpoints" {
    train 3 --max-steps 2
    [ "$(echo "$output" | grep -c 'checkpoint saved at')" -eq 1 ]
    [ "$(ls "$scratch/checkpoints")" = cnn_mnist.safetensors ]
}

@test "DDP-09 process group destroyed on every way out: nothing left behind" {
    train 2 --max-steps 1
    run timeout 300 03_torchrun_env/run.sh 2 --resume Makefile --checkpoint-dir "$scratch/none" # no checkpoint
    [ "$status" -eq 2 ]
    ! pgrep -f "train.* --checkpoint-dir $scratch" >/dev/null
}

@test "CHK-01 the model's own state is saved, not the wrapper's" {
    train 2 --max-steps 1
    head -c 4000 "$scratch/checkpoints/cnn_mnist.safetensors" | grep -aq '"conv1.weight"'
    ! head -c 4000 "$scratch/checkpoints/cnn_mnist.safetensors" | grep -aq 'module\.'
}

@test "CHK-02 what inference needs travels with it" {
    train 2 --max-steps 1
    header=$(python3 -c 'import json, struct, sys
data = open(sys.argv[1], "rb").read()
print(json.dumps(json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])))' "$scratch/checkpoints/cnn_mnist.safetensors")
    echo "$header" | jq -e '.__metadata__ | .mean == "0.1307" and .std == "0.3081" and has("class_labels") and has("input_shape")'
    [ "$(echo "$header" | jq -c '."fc2.weight".shape')" = "[10,128]" ]
}

@test "CHK-03 checkpoints go to checkpoints/" {
    program=$(pwd)/01_single_gpu/train
    cd "$scratch"
    run timeout 300 "$program" --num-samples 64 --max-steps 1
    [ "$status" -eq 0 ]
    [ -e checkpoints/cnn_digits.safetensors ]
}

@test "CHK-04 the final file is named after model and data set" {
    few=()
    train 2 --max-steps 1 --model linear
    [ -e "$scratch/checkpoints/linear_random.safetensors" ]
}

@test "LCH-01 a shell script launches each step" {
    for step in 0[1-5]_*/; do
        [ -x "$step/run.sh" ]
    done
}

@test "LCH-02 it uses the launcher with --nproc-per-node" {
    grep -q 'ddprun" --nproc-per-node "$ranks"' 03_torchrun_env/run.sh
    grep -q 'torchrun .*--nproc-per-node "$ranks"' 03_torchrun_env/run.sh
}

@test "LCH-03 the number of devices is an argument" {
    for ranks in 1 3; do
        train $ranks --max-steps 1
        [ "$(echo "$output" | grep -c '^\[CPU[0-9]\] Epoch 0')" -eq $ranks ]
    done
}
