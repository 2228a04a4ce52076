#!/usr/bin/env bats
# The aside train_recompute: step 02's bytes, whatever the segments, and the memory of its formula.
load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$BATS_TEST_TMPDIR
    aside=beyond/recompute/train_recompute
}

# train NAME PROGRAM OPTIONS...: with files in $scratch/NAME.
train() {
    local name=$1 program=$2
    shift 2
    rm -rf "${scratch:?}/$name"
    [[ $* == *linear* ]] || set -- "${few[@]}" "$@"
    run timeout 300 $program --threads 1 --device cpu --checkpoint-dir "$scratch/$name" "$@"
    [ "$status" -eq 0 ] || { echo "$name: $output" && return 1; }
    printf '%s\n' "${output//"$scratch/$name"/}" | sort >"$scratch/said_$name"
}

# same_files: those of both runs are equal, and there are some.
same_files() {
    for file in "$scratch"/kept/*.safetensors; do
        cmp "$file" "$scratch/again/${file##*/}"
    done
    [ "$(find "$scratch/kept" -name '*.safetensors' | wc -l)" -eq "$(find "$scratch/again" -name '*.safetensors' | wc -l)" ]
}

same_as_train() { # OPTIONS...: and the lines it prints, of the evaluation, too
    train kept 02_multi_gpu_spawn/train "$@"
    train again $aside "$@"
    same_files
    diff "$scratch/said_again" "$scratch/said_kept"
}

@test "one, two and three ranks end with the bytes of train, dropout, evaluation and last short batches included" {
    same_as_train --nproc 1 --max-steps 4
    same_as_train --nproc 2 --num-samples 100 --epochs 2 --save-every 1
    same_as_train --nproc 3 --model mlp --optimizer adam --clip-norm 1 --max-steps 3
    same_as_train --nproc 2 --model linear --max-steps 3
}

@test "so do other kernels: plain ones, and those of 16 bits" {
    same_as_train --nproc 2 --max-steps 2 --device plain
    grep -qx EXTRAS=0 "${BUILD:-build}/parts" && return # 16 bits on a CPU are those of extras/fast_cpu
    same_as_train --nproc 2 --max-steps 2 --amp bf16
    same_as_train --nproc 1 --max-steps 2 --model mlp --amp bf16
}

same_in_segments() { # OF...: layers
    train kept 02_multi_gpu_spawn/train --nproc 1 --model mlp --max-steps 3
    for layers in "$@"; do
        PLAIN=1 train again "tools/break.sh $aside.c s/^#define.SEGMENT_LAYERS/&\t$layers\t\/\/instead_of:/" --nproc 1 --model mlp --max-steps 3
        same_files
    done
}

@test "so do segments of three layers, which leave a short one, and of seven, which leave a single layer" {
    same_in_segments 3 7
}

# bats test_tags=slow
@test "so do segments of one layer, of all, and of more than there are" {
    same_in_segments 1 8 9
}

# With segments of two the layer of the cnn that computes again has no dropout. Here both that have it do.
@test "a layer that computes again drops the same units, and pools the same" {
    train kept 02_multi_gpu_spawn/train --nproc 2 --max-steps 3
    PLAIN=1 train again "tools/break.sh $aside.c s/^#define.SEGMENT_LAYERS/&\t4\t\/\/instead_of:/;s/segment.!=.kept->segment/true/" --nproc 2 --max-steps 3
    same_files
}

@test "accumulated gradients: the bytes of train" {
    train kept "tools/break.sh 02_multi_gpu_spawn/train.c docs/edits/accumulate.sed" --nproc 2 --max-steps 3
    train again "tools/break.sh $aside.c docs/edits/accumulate.sed" --nproc 2 --max-steps 3
    same_files
}

@test "a segment that is not computed again gives other bytes" {
    train kept 02_multi_gpu_spawn/train --nproc 1 --model mlp --max-steps 2
    PLAIN=1 train again "tools/break.sh $aside.c s/recompute_layer(kept,/(void)(/" --nproc 1 --model mlp --max-steps 2
    ! cmp -s "$scratch/kept/mlp_mnist.safetensors" "$scratch/again/mlp_mnist.safetensors" || false
}

@test "it resumes what train has saved" {
    options="--nproc 2 --num-samples 64 --model mlp --save-every 1"
    train kept 02_multi_gpu_spawn/train $options --epochs 2
    cp "$scratch/kept/epoch_1.safetensors" "$scratch"
    train again $aside $options --epochs 2 --resume "$scratch/epoch_1.safetensors"
    cmp "$scratch/kept/mlp_mnist.safetensors" "$scratch/again/mlp_mnist.safetensors"
}

@test "the mlp's outputs take the memory of the formula, with segments of 1, 2, 4 and 8 layers" {
    run bench/recompute.py --repeats 0 --rows 256
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"segments of 4"*"off by 0."* ]]
}

@test "the cnn saves the outputs of fc1 alone: 128 numbers a row" {
    for program in 02_multi_gpu_spawn/train $aside; do
        PLAIN=1 run timeout 100 tools/break.sh $program.c docs/edits/usage.sed --nproc 1 --batch-size 64 --max-steps 1 --epochs 1 --device cpu
        echo "$output"
        [ "$status" -eq 0 ]
        held[${#held[@]}]=$(sed -n 's/.*held \([0-9]*\) bytes.*/\1/p' <<<"$output")
    done
    [ "$((held[0] - held[1]))" -eq "$((64 * 128 * 4))" ]
}
