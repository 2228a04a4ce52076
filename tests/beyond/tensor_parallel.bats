#!/usr/bin/env bats
# The aside train_tensor_parallel: the results of one rank, and its files. Beside PyTorch:
# tests/against/torch/tensor_parallel.py.
load ../helpers/training
load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$BATS_TEST_TMPDIR
    aside=beyond/tensor_parallel/train_tensor_parallel
}

# train NAME PROGRAM RANKS OPTIONS...: with files in $scratch/NAME.
train() {
    local name=$1 program=$2 ranks=$3
    shift 3
    run timeout 300 $program --nproc "$ranks" --threads 1 --device cpu --checkpoint-dir "$scratch/$name" --metrics-dir "$scratch/$name" "$@"
    [ "$status" -eq 0 ] || { echo "$name: $output" && return 1; }
}

# The losses of a step, the mean over the ranks, differ by no more than 1e-6.
same_losses() { # NAME NAME
    python3 - "$scratch/$1" "$scratch/$2" <<'END'
import collections, glob, json, sys

def losses(folder):
    steps = collections.defaultdict(list)
    for path in glob.glob(folder + '/rank*.jsonl'):
        for line in map(json.loads, open(path)):
            steps[line['step']].append(line['loss'])
    return {step: sum(values) / len(values) for step, values in steps.items()}

ours, theirs = losses(sys.argv[1]), losses(sys.argv[2])
assert ours.keys() == theirs.keys() and len(ours) > 1, ours
worst = max(abs(ours[step] - theirs[step]) for step in ours)
print(f'losses: {worst:.1e}')
assert worst <= 1e-6
END
}

# same_as_one_rank OPTIONS...: of two ranks, and of four, which have two replicas. Few rows: the more windows are pooled, the
# sooner the two largest numbers of one are equal within rounding, and then the other one may be taken.
same_as_one_rank() {
    train one 02_multi_gpu_spawn/train 1 --batch-size 4 "$@"
    train 2 $aside 2 --batch-size 4 "$@"
    train 4 $aside 4 --batch-size 2 "$@"
    for ranks in 2 4; do
        for file in "$scratch"/one/*.safetensors; do
            near "$scratch/$ranks/${file##*/}" "$file" 1e-6
        done
        same_losses one $ranks
    done
}

@test "the cnn, dropout included, has the losses and weights of one rank within 1e-6" {
    same_as_one_rank --max-steps 20 --momentum 0.9 --lr 0.05 --seed 1
    tools/evaluate "$scratch/one/cnn_digits.safetensors" >"$scratch/of_one"
    for ranks in 2 4; do # whose file tools read as any other
        tools/evaluate "$scratch/$ranks/cnn_digits.safetensors" | sed "s|/$ranks/|/one/|" | diff - "$scratch/of_one"
    done
}

@test "the mlp, each pair of whose layers is divided, has them too" {
    # Without extras/ and AVX-512 the plain loops of other seeds come to 1.04e-6.
    local mlp=(--max-steps 4 --model mlp --momentum 0 --seed 3 --save-every 0 "${few[@]}")
    same_as_one_rank "${mlp[@]}"
    PLAIN=1 train 1x4 "tools/break.sh $aside.c docs/edits/tensor_ranks_4.sed" 4 --batch-size 4 "${mlp[@]}"
    near "$scratch/1x4/mlp_mnist.safetensors" "$scratch/one/mlp_mnist.safetensors" 1e-6
}

# alone_as_train OPTIONS...: with the bytes of train. Without extras/ the plain loops begin with the bias, which a layer cut by
# rows adds at the end.
alone_as_train() {
    local file compare=(near) tolerance=(1e-4)
    ! grep -qx EXTRAS=1 "${BUILD:-build}/parts" || compare=(cmp) tolerance=()
    train one 02_multi_gpu_spawn/train 1 "$@" "${few[@]}" && train alone $aside 1 "$@" "${few[@]}" || return
    for file in "$scratch"/one/*.safetensors; do
        "${compare[@]}" "$file" "$scratch/alone/${file##*/}" "${tolerance[@]}" || return
    done
}

# Adam divides a gradient by its size, also where it is hardly more than rounding: so without extras/ one seed of four is enough,
# and a wrong formula fails with any.
@test "one rank alone has everything: the bytes of train" {
    alone_as_train --max-steps 3
    adam="--model mlp --max-steps 2 --optimizer adam"
    if grep -qx EXTRAS=1 "${BUILD:-build}/parts"; then
        alone_as_train $adam
    else
        alone_as_train $adam || alone_as_train $adam --seed 1 || alone_as_train $adam --seed 2 || alone_as_train $adam --seed 3
    fi
}

@test "it resumes what train has saved, and train what it has saved, the optimizer's state included" {
    options="--num-samples 64 --global-batch-size 16 --save-every 1 --momentum 0.9 --dropout off ${few[*]}"
    train whole 02_multi_gpu_spawn/train 1 $options --epochs 1
    train parts $aside 4 $options --epochs 1
    near "$scratch/parts/epoch_1.safetensors" "$scratch/whole/epoch_1.safetensors" 1e-6
    train here $aside 4 $options --epochs 2 --resume "$scratch/whole/epoch_1.safetensors"
    train there 02_multi_gpu_spawn/train 1 $options --epochs 2 --resume "$scratch/parts/epoch_1.safetensors"
    near "$scratch/here/epoch_2.safetensors" "$scratch/there/epoch_2.safetensors" 1e-6
}

@test "a rank holds and sends what the formulas say" {
    run bench/tensor_parallel.py 64
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"1 x 4  sent "*"off by 0."* ]]
}

@test "it says in one line what it cannot do" {
    while IFS='|' read -r options message; do
        run timeout 60 $aside --device cpu --checkpoint-dir "$scratch" $options
        echo "$options: $output"
        [ "$status" -eq 2 ]
        [[ $output == *"$message"* ]]
    done <<END
--nproc 3|--nproc 3: this aside divides each layer among 2 ranks, so it needs a multiple of 2
--nproc 2 --model linear|--model linear: tensor parallelism divides two linear layers in a row
--nproc 2 --clip-norm 1|--clip-norm: each rank of this aside
END
}

@test "weights that are not finite on one rank end both, with the message of train" {
    run timeout 60 $aside --nproc 2 --device cpu --threads 1 --checkpoint-dir "$scratch" --lr 1000 --max-steps 40
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"fatal: training diverged: weights are nan or infinite after step"* ]]
}
