#!/usr/bin/env bats
# The asides train_zero1 to train_zero3: DDP's result in less memory, and DDP's files. train_zero4 and 5 send less.
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

# train STAGE RANKS OPTIONS...: of DDP ("") or ZeRO (1, 2, 3), with files in $scratch/STAGE.
train() {
    stage=$1 ranks=$2
    shift 2
    [[ $* == *linear* ]] || set -- "${few[@]}" "$@"
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
    same_as_ddp 2 2 1 --batch-size 8 --num-samples 24 # a whole batch and one with fewer rows
    same_as_ddp 2 1 1 --batch-size 8 --num-samples 24 --optimizer adamw
    same_as_ddp 2 2 1 --model linear --momentum 0.9 --num-samples 200
    same_as_ddp 2 1 1 --model linear --optimizer adadelta --num-samples 200
}

@test "four ranks, whose shares are the ring's blocks: the bytes of DDP" {
    same_as_ddp 4 1 1 --model mlp --momentum 0.9 --bucket-cap-mb 1 --batch-size 16 --max-steps 2
}

@test "three ranks, which leave a last block shorter by one: the bytes of DDP, ZeRO-3's too" {
    same_as_ddp 3 1 1 --model mlp --optimizer adam --bucket-cap-mb 1 --batch-size 16 --max-steps 2
}

# bats test_tags=slow
@test "five and seven ranks, which divide the mlp's layers: the bytes of DDP" {
    for ranks in 5 7; do
        same_as_ddp $ranks 1 1 --model mlp --optimizer adam --bucket-cap-mb 1 --batch-size 16 --max-steps 3
    done
}

# of_drift RANKS: stage 1 to 3, numbers whose block is DDP's, those that differ, others, those that differ
of_drift() {
    run timeout 300 bench/zero_drift.py --ranks "$1" --steps
    echo "$output"
    [ "$status" -eq 0 ]
    drift=$(sed -n 's/^ZeRO-//p' <<<"$output" | tr -s ' ')
}

# The numbers are the arithmetic of docs/zero.md: of 1,199,882 gradients 2,685 are in another third of their layer than
# of their bucket, or travel with a layer, but in DDP with a bucket.
@test "ZeRO-3 differs from DDP on three ranks only in sums whose order is another" {
    of_drift 3
    [[ $drift == $'1 1199882 0 0 0\n2 1199882 0 0 0\n3 1197197 0 2685 '[1-9]* ]]
}

# bats test_tags=slow
@test "so do ZeRO-1, 2 and 3 on four, five and seven ranks" {
    for ranks in 4 5 7; do
        of_drift $ranks
        [ "$(wc -l <<<"$drift")" -eq 3 ]
        awk '$2 + $4 != 1199882 || $3 != 0 || $4 < 1 { bad = 1 } END { exit bad }' <<<"$drift"
    done
}

@test "one rank alone has everything" {
    same_as_ddp 1 1 1 --max-steps 3
}

# A number of ranks that divides no unit: the order of additions is another.
near_ddp() { # RANKS
    train '' "$1" --max-steps 4 --dropout off --batch-size 8
    train '' "$1" --model linear --max-steps 20
    for zero in 1 2 3; do
        train $zero "$1" --max-steps 4 --dropout off --batch-size 8
        train $zero "$1" --model linear --max-steps 20
        near "$scratch/cnn_mnist.safetensors" "$scratch/$zero/cnn_mnist.safetensors" 1e-5
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
    run_on=(--num-samples 48 --optimizer adam --global-batch-size 24)
    train 2 3 1 1 "${run_on[@]}"
    mv "$scratch/2/epoch_1.safetensors" "$scratch/first"
    train '' 2 2 1 "${run_on[@]}" --resume "$scratch/first"
    for zero in 1 2 3; do
        train $zero 2 2 1 "${run_on[@]}" --resume "$scratch/first"
        cmp "$scratch/cnn_mnist.safetensors" "$scratch/$zero/cnn_mnist.safetensors"
    done
    timeout 300 05_fault_tolerance/run.sh 2 3 1 "${run_on[@]}" --resume "$scratch/3/cnn_mnist.safetensors" \
        --checkpoint-dir "$scratch/05" 2>&1 | grep -q 'Epoch 2 | Training checkpoint saved'
}

@test "ranks that evaluate one batch less than others still gather" {
    train '' 7 1 0 --batch-size 3 --num-samples 14 # of 24 rows to evaluate 4 for ranks 0 to 2, 3 for the others
    train 3 7 1 0 --batch-size 3 --num-samples 14
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

# tensors FILE FILE: the names of the weights that differ.
changed() {
    python3 - "$@" <<'END'
import json, struct, sys

def tensors(path):
    data = open(path, 'rb').read()
    begin = 8 + struct.unpack('<Q', data[:8])[0]
    return {name: data[begin + t['data_offsets'][0]:begin + t['data_offsets'][1]]
            for name, t in json.loads(data[8:begin]).items() if not name.startswith(('__', 'optimizer.'))}

first, second = map(tensors, sys.argv[1:])
print(*[name for name in first if first[name] != second[name]])
END
}

@test "layers that join: the last one alone learns at first, then all; a resumed run is the same; schedules are refused" {
    add() { # FOLDER OPTIONS...
        folder=$1
        shift
        run timeout 300 beyond/zero/train_add_group --nproc 2 --threads 1 --device cpu "${few[@]}" --batch-size 8 --optimizer adam --checkpoint-dir "$scratch/$folder" "$@"
        [ "$status" -eq "${due:-0}" ] || { echo "$output" && return 1; }
    }
    add 0 --epochs 0
    add 2 --max-steps 2
    add 4 --max-steps 4
    add 5 --max-steps 5
    [ "$(changed "$scratch/0/epoch_0.safetensors" "$scratch/4/cnn_mnist.safetensors")" = 'fc2.weight fc2.bias' ]
    [ "$(changed "$scratch/4/cnn_mnist.safetensors" "$scratch/5/cnn_mnist.safetensors" | wc -w)" -eq 8 ]
    add all --max-steps 7
    for begin in 2 5; do
        add again$begin --max-steps 7 --resume "$scratch/$begin/cnn_mnist.safetensors"
        cmp "$scratch/all/cnn_mnist.safetensors" "$scratch/again$begin/cnn_mnist.safetensors"
    done
    due=2 add none --lr-schedule cosine
    [[ $output == *"--lr-schedule and --warmup-steps: layers that join later count their own steps"* ]]
}

# bats test_tags=slow
@test "what a rank holds and sends is within 5 % of the formula" {
    run timeout 500 bench/zero.py 2 3
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ZeRO-[123] held' <<<"$output")" -eq 3 ]
}

# How many all_gathers of more than one number rank 0 starts, by type.
gathers() {
    sed -n 's/^start [0-9]* all_gather count=\([0-9]*\) type=\([a-z0-9]*\) .*/\1 \2/p' "$1/rank0.txt" | awk '$1 > 1 { print $2 }' | sort | uniq -c
}

# Rounds the tensors with these names in a file to bf16: an optimizer that takes no step leaves them so.
round_to_bf16() {
    python3 - "$@" <<'END'
import array, json, struct, sys

path, *names = sys.argv[1:]
data = bytearray(open(path, 'rb').read())
begin = 8 + struct.unpack('<Q', data[:8])[0]
for name in names:
    first, last = json.loads(data[8:begin])[name]['data_offsets']
    exact = array.array('I', data[begin + first:begin + last])
    data[begin + first:begin + last] = array.array('I', [(bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000 for bits in exact])
header = json.loads(data[8:begin])
del header['__metadata__'] # has a checksum
text = json.dumps(header).encode()
open(path, 'wb').write(struct.pack('<Q', len(text)) + text + data[begin:])
END
}

@test "what is gathered in 16 bits is computed with as if it had been rounded before" {
    all='conv1.weight conv1.bias conv2.weight conv2.bias fc1.weight fc1.bias fc2.weight fc2.bias'
    train '' 2 --epochs 0
    for zero in 4 5; do
        cp "$scratch/epoch_0.safetensors" "$scratch/rounded"
        # shellcheck disable=SC2086 # the names
        round_to_bf16 "$scratch/rounded" $([ $zero = 4 ] && echo $all || echo fc1.weight fc1.bias)
        train '' 2 --max-steps 1 --lr 1e-30 --init-from "$scratch/rounded"
        train $zero 2 --max-steps 1 --lr 1e-30
        diff <(grep '^T' "$scratch/said$zero") <(grep '^T' "$scratch/said")
    done
}

@test "gathered in 16 bits, and with small layers left whole: near DDP on 2 and 3 ranks, saved in float32, fewer messages" {
    for ranks in 2 3; do
        train '' $ranks --max-steps 8 --dropout off --batch-size 8
        for zero in 4 5; do
            DDP_JOURNAL=$scratch/journal$zero train $zero $ranks --max-steps 8 --dropout off --batch-size 8
            loss=$(sed -n 's/^Test.* Loss: \([0-9.]*\) .*/\1/p' "$scratch/said$zero") due=$(sed -n 's/^Test.* Loss: \([0-9.]*\) .*/\1/p' "$scratch/said")
            awk -v a="$loss" -v b="$due" 'BEGIN { print a, b; exit !(a > 0.99 * b && a < 1.01 * b) }'
            ! cmp -s "$scratch/cnn_mnist.safetensors" "$scratch/$zero/cnn_mnist.safetensors" || false
        done
    done
    train 4 7 1 0 --batch-size 3 --num-samples 14 # one batch less on some ranks
    train 5 7 1 0 --batch-size 3 --num-samples 14
    train 4 1 --max-steps 3 && train 5 1 --max-steps 3
    [ -e "$scratch/journal4/rank0.txt" ] || skip "a build without extras keeps no journals"
    rm -r "$scratch"/journal*
    for zero in 4 5; do # 2 epochs of a step, and an evaluation of 1 batch
        DDP_JOURNAL=$scratch/journal$zero train $zero 2 2 0 --num-samples 8 --batch-size 12
    done
    [ "$(gathers "$scratch/journal4" | xargs)" = "24 bfloat16" ] # 4 layers, 2 * (2 + 1) passes
    [ "$(gathers "$scratch/journal5" | xargs)" = "6 bfloat16" ] # fc1 alone
}
