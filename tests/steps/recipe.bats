#!/usr/bin/env bats
# What a recipe has: --clip-norm, --lr-schedule, --warmup-steps. tests/common/nn/test_optim.c and
# tests/against/torch/training.py have their numbers.

load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$(mktemp -d)
    recipe="--lr-schedule cosine --warmup-steps 6 --clip-norm 1"
}

teardown() {
    rm -rf "$scratch"
}

# train DIR PROGRAM... OPTIONS...: files in $scratch/DIR.
train() {
    dir=$scratch/$1
    shift
    run timeout 300 "$@" --device cpu --threads 1 "${few[@]}" --num-samples 64 --global-batch-size 16 --checkpoint-dir "$dir"
    echo "$output"
    [ "$status" -eq 0 ]
}

# The tensors of DIR's last checkpoint: its header has the number of ranks.
weights() {
    file=$scratch/$1/cnn_mnist.safetensors
    tail -c +$((9 + $(od -An -t u8 -N 8 "$file"))) "$file" | sha256sum
}

@test "a resumed run has the rates of one that was not interrupted, in the warm-up and after it" {
    for schedule in step cosine; do
        through=$scratch/$schedule resumed=$scratch/resumed
        train $schedule 01_single_gpu/train 4 1 $recipe --lr-schedule $schedule
        for epoch in 1 3; do
            train resumed 01_single_gpu/train 4 0 $recipe --lr-schedule $schedule --resume "$through/epoch_$epoch.safetensors"
            cmp "$through/cnn_mnist.safetensors" "$resumed/cnn_mnist.safetensors"
        done
    done
    train stopped 05_fault_tolerance/run.sh 1 4 0 $recipe --lr-schedule cosine --max-steps 5 --save-every-steps 5
    train stopped 05_fault_tolerance/run.sh 1 4 0 $recipe --lr-schedule cosine
    cmp "$through/cnn_mnist.safetensors" "$scratch/stopped/cnn_mnist.safetensors"
}

@test "any number of ranks, the same bits: they clip by one norm, and have one rate" {
    for ranks in 1 2 4; do
        train $ranks 05_fault_tolerance/run.sh $ranks 2 0 $recipe --reduce-order fixed
        [ "$(weights $ranks)" = "$(weights 1)" ]
    done
}

@test "each option changes the weights, and its default does not" {
    train none 01_single_gpu/train 1 0
    train default 01_single_gpu/train 1 0 --lr-schedule constant --warmup-steps 0 --clip-norm 0
    cmp "$scratch/none/cnn_mnist.safetensors" "$scratch/default/cnn_mnist.safetensors"
    for option in "--lr-schedule cosine" "--warmup-steps 1" "--clip-norm 0.5"; do
        train other 01_single_gpu/train 1 0 $option
        ! cmp -s "$scratch/none/cnn_mnist.safetensors" "$scratch/other/cnn_mnist.safetensors" || false
    done
}

@test "the asides: ZeRO has the rates of DDP, and refuses to clip by the norm of a share" {
    train ddp 02_multi_gpu_spawn/train 1 0 --nproc 2 --lr-schedule cosine --warmup-steps 3 --optimizer adamw
    for stage in 1 2 3; do
        train $stage beyond/zero/train_zero$stage 1 0 --nproc 2 --lr-schedule cosine --warmup-steps 3 --optimizer adamw
        cmp "$scratch/ddp/cnn_mnist.safetensors" "$scratch/$stage/cnn_mnist.safetensors"
        run beyond/zero/train_zero$stage 1 --nproc 2 --device cpu --clip-norm 1
        [ "$status" -eq 2 ]
        [[ $output == *"--clip-norm: each rank of this aside holds a share of the gradients, and the norm needs all of them; leave it out, or use train" ]]
        [ "${#lines[@]}" -eq 1 ]
    done
}

# refused PROGRAM OPTION VALUE WHY: in one line.
refused() {
    run timeout 60 "beyond/$1" 1 --nproc 2 --device cpu "$2" "$3"
    echo "$output"
    [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == "${1#*/}: $2: "*"$4"*"; leave it out"* ]]
}

@test "other asides refuse what they would do wrong: rates by rank, and what their own network has not" {
    for program in uneven/train_uneven uneven/train_join; do
        refused $program --lr-schedule step "the epochs of this aside differ in length by rank"
        refused $program --lr-schedule cosine "the epochs of this aside differ in length by rank"
    done
    for program in batch_norm/train_batch_norm batch_norm/train_sync_batch_norm; do
        refused $program --lr-schedule step "one network of its own"
        refused $program --warmup-steps 3 "one network of its own"
        refused $program --clip-norm 1 "one network of its own"
    done
}

@test "the asides with batch norm say in --help, line by line, what they refuse" {
    beyond/batch_norm/train_batch_norm --help | head -n 4 >"$scratch/help"
    cat "$scratch/help"
    [ "$(grep -c '?' "$scratch/help")" -eq 0 ]
    grep -q "^--amp, --init-from, --metrics-dir, --lr-schedule, --warmup-steps, --clip-norm\.$" "$scratch/help"
}

# bats test_tags=slow
@test "make lr-sweep: all rates by ranks, and real ranks beside one process" {
    run timeout 500 bench/lr_sweep.py --epochs 1 2 64
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^ *0[.0-9]+ +([0-9]+|-) +([0-9]+|-)$' <<<"$output")" -eq 32 ] # 8 rates, 2 optimizers, 2 warm-ups
    [ "$(grep -c 'after an epoch: 2 ranks [0-9.]*, one process [0-9.]*$' <<<"$output")" -eq 2 ]
    [[ $output == *"apart by "*" % at most" ]]
}
