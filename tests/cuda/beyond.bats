#!/usr/bin/env bats
# The asides of beyond/ with --device cuda on the stand-in: the CPU's weights, on two GPUs and on three.
load ../helpers/training

setup() {
    scratch=$BATS_TEST_TMPDIR
    export CUDA_STAND_IN_DEVICES=3
}

# train PROGRAM RANKS FOLDER OPTIONS...
train() {
    local program=$1 ranks=$2 folder=$3
    shift 3
    run timeout 300 "$program" --nproc "$ranks" --threads 1 --checkpoint-dir "$scratch/$folder" --dropout off "$@"
    [ "$status" -eq 0 ] || { echo "$program: $output" && return 1; }
}

# as_on_cpus TOLERANCE NAME PROGRAM RANKS OPTIONS...: the file NAME that it saves, and the losses that it prints, are
# those of the same program, or of REFERENCE, on CPUs.
as_on_cpus() {
    local tolerance=$1 name=$2 program=$3 ranks=$4
    shift 4
    train "${REFERENCE:-$program}" "$ranks" cpu --device cpu "$@"
    cpu=$(grep -o 'Loss: [0-9.]*' <<<"$output")
    train "$program" "$ranks" cuda --device cuda "$@"
    [ "$(grep -c '^.GPU[0-9]. Epoch 0 ' <<<"$output")" -eq "$ranks" ]
    paste <(echo "$cpu") <(grep -o 'Loss: [0-9.]*' <<<"$output") | awk '
        { d = ($2 - $4) / $2; if (!(d <= 1e-3 && d >= -1e-3)) bad = 1 } END { exit bad || NR < 1 }'
    near "$scratch/cuda/$name" "$scratch/cpu/$name" "$tolerance"
}

@test "ZeRO, stages 1 to 3: over nccl with three GPUs, over tcp with two" {
    REFERENCE=02_multi_gpu_spawn/train # DDP
    for stage in 1 2 3; do
        as_on_cpus 1e-4 cnn_digits.safetensors beyond/zero/train_zero$stage 3 --max-steps 3 --batch-size 8 --momentum 0.9
        as_on_cpus 1e-5 linear_random.safetensors beyond/zero/train_zero$stage 2 --max-steps 8 --model linear --optimizer adam \
            --backend tcp
    done
}

@test "ZeRO on GPUs refuses what needs all gradients at once, status 2" {
    for given in '--amp fp16' '--cuda-graph on'; do
        # shellcheck disable=SC2086 # two words
        run timeout 100 beyond/zero/train_zero2 --nproc 2 --device cuda $given --checkpoint-dir "$scratch"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ $output == *"$given: this aside takes each step unit by unit"* ]]
    done
}

# The largest of four neighbours may be another one, where two are nearly equal, so there is a tolerance.
@test "join: a rank whose rows have run out sends gradients of zero from its GPU" {
    as_on_cpus 5e-3 cnn_digits.safetensors beyond/uneven/train_join 2 --num-samples 48 --batch-size 8 --epochs 1
    as_on_cpus 1e-5 linear_random.safetensors beyond/uneven/train_join 3 --num-samples 96 --batch-size 8 --epochs 2 --model linear
}

# Convolution and batch norm have the same arithmetic on both, but a GPU adds a sum over the batch in another order.
@test "batch norm, each rank's own and over all ranks: weights and buffers, over nccl and tcp" {
    final=batch_norm_digits.safetensors
    for kind in '' sync_; do
        as_on_cpus 1e-5 $final beyond/batch_norm/train_${kind}batch_norm 2 --max-steps 8 --batch-size 8 --momentum 0.9
        as_on_cpus 1e-5 $final beyond/batch_norm/train_${kind}batch_norm 3 --max-steps 8 --batch-size 5 --backend tcp
    done
    train beyond/batch_norm/train_sync_batch_norm 3 all --device cuda --global-batch-size 24 --num-samples 240 --max-steps 8
    train beyond/batch_norm/train_batch_norm 1 one --device cpu --global-batch-size 24 --num-samples 240 --max-steps 8
    near "$scratch/all/$final" "$scratch/one/$final" 1e-5
}

@test "batch norm: a run on GPUs resumes exactly, and its buffers are equal on all ranks" {
    program=beyond/batch_norm/train_sync_batch_norm final=batch_norm_digits.safetensors
    train $program 2 whole --device cuda --max-steps 6 --momentum 0.9 --batch-size 8 --save-every 0
    [[ $output == *"Buffers differ by 0.0000 between the ranks"* ]]
    train $program 2 part --device cuda --max-steps 3 --momentum 0.9 --batch-size 8 --save-every 0
    train $program 2 later --device cuda --max-steps 6 --momentum 0.9 --batch-size 8 --save-every 0 --resume "$scratch/part/$final"
    cmp "$scratch/whole/$final" "$scratch/later/$final"
}

# bats test_tags=slow
@test "batch norm on GPUs beside PyTorch: DDP with its broadcast, and SyncBatchNorm" {
    [ -n "${TORCH_BIN:-}" ] || skip "no PyTorch: TORCH_BIN is where its python is"
    make -s build/tests/against/torch/store_peer
    export CUDA_STAND_IN_DEVICES=4 TEST_OPTIONS='--device cuda'
    for way in broadcast sync; do
        run timeout 900 "$TORCH_BIN/python" -B tests/against/torch/batch_norm.py $way
        echo "$output"
        [ "$status" -eq 0 ]
    done
}
