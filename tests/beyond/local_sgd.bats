#!/usr/bin/env bats
# The asides train_local_sgd and train_diloco: what they learn, and what they send. Beside PyTorch:
# tests/against/torch/local_sgd.py.
load near

setup() {
    scratch=$BATS_TEST_TMPDIR
}

# train NAME PROGRAM OPTIONS...: with files in $scratch/NAME.
train() {
    local name=$1
    shift
    run timeout 300 "$@" --nproc 2 --threads 1 --device cpu --save-every 0 --checkpoint-dir "$scratch/$name"
    [ "$status" -eq 0 ] || { echo "$*: $output" && return 1; }
}

@test "a mean after each step, with plain SGD, is DDP within rounding; after eight it is not" {
    options="--max-steps 4 --batch-size 8 --optimizer sgd --momentum 0 --lr 0.05 --dropout off"
    train ddp 02_multi_gpu_spawn/train $options
    PLAIN=1 train one tools/break.sh beyond/local_sgd/train_local_sgd.c docs/edits/period_1.sed $options
    near "$scratch/one/cnn_digits.safetensors" "$scratch/ddp/cnn_digits.safetensors" 1e-5
    train eight beyond/local_sgd/train_local_sgd $options
    ! near "$scratch/eight/cnn_digits.safetensors" "$scratch/ddp/cnn_digits.safetensors" 1e-5 || false
}

# sent PROGRAM: bytes that a rank sends in a step, the mean of 16.
sent() {
    PLAIN=1 train sent tools/break.sh "$1.c" docs/edits/measure.sed --max-steps 16 --batch-size 8 >&2
    sed -n 's/^rank 0 sent \([0-9]*\) bytes a step.*/\1/p' <<<"$output"
}

@test "with rounds of eight steps a rank sends an eighth of DDP's bytes" {
    ddp=$(sent 02_multi_gpu_spawn/train)
    [ "$ddp" -ge 4000000 ]
    for program in train_local_sgd train_diloco; do
        bytes=$(sent beyond/local_sgd/$program)
        echo "$program: $bytes of $ddp"
        [ $((bytes * 8)) -le $((ddp + ddp / 1000)) ] && [ $((bytes * 8)) -ge $((ddp - ddp / 1000)) ]
    done
}

@test "both learn" {
    for program in train_local_sgd train_diloco; do
        train $program beyond/local_sgd/$program --epochs 2
        [ "$(sed -n 's/^Test Epoch: 1 .*Accuracy: \([0-9]*\).*/\1/p' <<<"$output")" -ge 70 ]
    done
}
