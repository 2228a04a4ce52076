#!/usr/bin/env bats
# The asides train_zero1 to train_zero3: DDP's result in less memory, and DDP's files.
load near

setup() {
    scratch=$(mktemp -d)
}

teardown() {
    rm -rf "$scratch"
}

# train STAGE RANKS OPTIONS...: of DDP ("") or ZeRO (1, 2, 3), with files in $scratch/STAGE.
train() {
    stage=$1 ranks=$2
    shift 2
    run timeout 300 "${stage:+beyond/zero/train_zero}${stage:-02_multi_gpu_spawn/train}" --nproc "$ranks" --threads 1 --device cpu \
        --checkpoint-dir "$scratch/$stage" "$@"
    [ "$status" -eq 0 ] || { echo "$stage: $output" && return 1; }
    printf '%s\n' "${output//"$scratch/$stage"/}" >"$scratch/said$stage"
}

# Each stage's files are DDP's, byte for byte, and so are the lines it prints.
same_as_ddp() {
    train '' "$@"
    for zero in 1 2 3; do
        train $zero "$@"
        for file in "$scratch"/*.safetensors; do
            cmp "$file" "$scratch/$zero/${file##*/}"
        done
        diff <(sort "$scratch/said$zero") <(sort "$scratch/said")
    done
    [ "$(find "$scratch" -maxdepth 1 -name '*.safetensors' | wc -l)" -eq "$(find "$scratch/3" -name '*.safetensors' | wc -l)" ]
}

@test "two ranks: the bytes of DDP, with every kind of optimizer" {
    same_as_ddp 2 2 1 --num-samples 400
    same_as_ddp 2 1 1 --num-samples 200 --optimizer adam
    same_as_ddp 2 2 1 --model linear --momentum 0.9 --num-samples 200
    same_as_ddp 2 1 1 --model linear --optimizer adadelta --num-samples 200
}

@test "four ranks, whose shares are the ring's blocks: the bytes of DDP" {
    same_as_ddp 4 1 1 --model mlp --optimizer adamw --bucket-cap-mb 1 --batch-size 2 --max-steps 3
}

@test "one rank alone has everything" {
    same_as_ddp 1 1 1 --max-steps 3
}

# A number of ranks that divides no unit: the order of additions is another.
near_ddp() { # RANKS
    train '' "$1" --max-steps 8 --dropout off --batch-size 8
    train '' "$1" --model linear --max-steps 20
    for zero in 1 2 3; do
        train $zero "$1" --max-steps 8 --dropout off --batch-size 8
        train $zero "$1" --model linear --max-steps 20
        near "$scratch/cnn_digits.safetensors" "$scratch/$zero/cnn_digits.safetensors" 1e-5
        near "$scratch/linear_random.safetensors" "$scratch/$zero/linear_random.safetensors" 1e-5
    done
}

@test "three ranks: within the tolerance of another order of additions" {
    near_ddp 3
}

# bats test_tags=slow
@test "five ranks: within the tolerance of another order of additions" {
    near_ddp 5
}

@test "any stage resumes what any stage, or DDP, has saved on another number of ranks" {
    run_on=(--num-samples 192 --optimizer adam --global-batch-size 24)
    train 2 3 1 1 "${run_on[@]}"
    mv "$scratch/2/epoch_1.safetensors" "$scratch/first"
    train '' 2 2 1 "${run_on[@]}" --resume "$scratch/first"
    for zero in 1 2 3; do
        train $zero 2 2 1 "${run_on[@]}" --resume "$scratch/first"
        cmp "$scratch/cnn_digits.safetensors" "$scratch/$zero/cnn_digits.safetensors"
    done
    timeout 300 05_fault_tolerance/run.sh 2 3 1 "${run_on[@]}" --resume "$scratch/3/cnn_digits.safetensors" \
        --checkpoint-dir "$scratch/05" 2>&1 | grep -q 'Epoch 2 | Training checkpoint saved'
}

@test "ranks that evaluate one batch less than others still gather" {
    train '' 7 --batch-size 51 --max-steps 2 # 360 rows: 52 for rank 0, 51 for rank 6
    train 3 7 --batch-size 51 --max-steps 2
    [ "$(grep ^Test "$scratch/said3")" = "$(grep ^Test "$scratch/said")" ]
}

@test "a training that diverges, in one rank's share first, stops on all ranks and says so once" {
    for zero in 1 2 3; do
        run timeout 300 beyond/zero/train_zero$zero --nproc 2 --model linear --lr 8 --seed 1 --log-interval 1 \
            --checkpoint-dir "$scratch" --threads 1
        echo "$output"
        [ "$status" -eq 1 ]
        [ "$(grep -c 'training diverged: weights are nan or infinite after step' <<<"$output")" -eq 1 ]
        [ ! -e "$scratch/linear_random.safetensors" ]
    done
}

# bats test_tags=slow
@test "what a rank holds and sends is within 5 % of the formula" {
    run timeout 500 bench/zero.py 2 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ZeRO-[123] held' <<<"$output")" -eq 3 ]
}
