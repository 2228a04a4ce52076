#!/usr/bin/env bats
# The asides train_uneven and train_join: ranks with different numbers of rows hang, or join.
# (tests/against/torch/join.bats compares them with PyTorch.)
load ../helpers/training
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

# train PROGRAM RANKS FOLDER OPTIONS...: its output goes to $scratch/FOLDER/said.
train() {
    local program=$1 ranks=$2 folder=$3
    mkdir -p "$scratch/$folder"
    shift 3
    timeout 300 "$program" --nproc "$ranks" --threads 1 --checkpoint-dir "$scratch/$folder" "$@" >"$scratch/$folder/said" 2>&1 ||
        { cat "$scratch/$folder/said" && return 1; }
}

@test "ranks that do not join wait for each other; the timeout names who is missing, and where" {
    run timeout 100 beyond/uneven/train_uneven --nproc 2 --num-samples 320 --timeout 6 --checkpoint-dir "$scratch"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"[rank 0/2] fatal: rank 1 is missing in all_reduce #"*" after 6 s"* ]]
}

@test "ranks with rows to the end train as step 02 does: where no rank joins, the bytes are the same" {
    train 02_multi_gpu_spawn/train 1 ddp "${few[@]}" --num-samples 100 --epochs 1
    train beyond/uneven/train_join 1 join "${few[@]}" --num-samples 100 --epochs 1
    cmp "$scratch/ddp/cnn_mnist.safetensors" "$scratch/join/cnn_mnist.safetensors"
    sed -i 's|/ddp\b|/join|' "$scratch/ddp/said"
    diff "$scratch/ddp/said" "$scratch/join/said"
}

@test "every row counts once, whoever has joined: the steps are rank 0's, and the replicas stay equal" {
    train beyond/uneven/train_join 3 out 2 1 --model linear --num-samples 200 --momentum 0.9 --batch-size 8 --metrics-dir "$scratch/metrics"
    [ "$(grep -o 'Steps: .*' "$scratch/out/said" | sort -u | tr '\n' ' ')" = "Steps: 3 Steps: 6 Steps: 9 " ]
    for rank in 0 1 2; do # a line for each step with a batch, of two epochs
        [ "$(grep -c '"loss"' "$scratch/metrics/rank$rank.jsonl")" -eq $((2 * 3 * (3 - rank))) ]
    done
    # The last rank, which joins first, saves the same file as rank 0.
    PLAIN=1 tools/break.sh beyond/uneven/train_join.c 's/^    if (rank == 0)$/    if (rank == world_size - 1)/' \
        --nproc 3 --epochs 2 --save-every 0 --model linear --num-samples 200 --momentum 0.9 --batch-size 8 --checkpoint-dir "$scratch/last"
    cmp "$scratch/out/linear_random.safetensors" "$scratch/last/linear_random.safetensors"
}

@test "a rank may have no row at all" {
    train beyond/uneven/train_join 4 out --model linear --num-samples 3 --epochs 3
    [ "$(grep -c '^\[CPU3\] Epoch [012] | Batchsize: 32 | Steps: 0' "$scratch/out/said")" -eq 3 ]
}

@test "a run resumes exactly, after an epoch and where a rank has joined already" {
    options=("${few[@]}" --num-samples 80 --batch-size 4)
    train beyond/uneven/train_join 2 whole "${options[@]}" --epochs 2 --save-every 1
    train beyond/uneven/train_join 2 later "${options[@]}" --epochs 2 --resume "$scratch/whole/epoch_1.safetensors"
    cmp "$scratch/whole/cnn_mnist.safetensors" "$scratch/later/cnn_mnist.safetensors"
    for stop in 3 7; do # of 10 steps, 5 of them with both ranks
        train beyond/uneven/train_join 2 part "${options[@]}" --max-steps $stop --save-every 0
        train beyond/uneven/train_join 2 later "${options[@]}" --epochs 2 --resume "$scratch/part/cnn_mnist.safetensors"
        cmp "$scratch/whole/cnn_mnist.safetensors" "$scratch/later/cnn_mnist.safetensors"
    done
}
