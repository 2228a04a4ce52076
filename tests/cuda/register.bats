#!/usr/bin/env bats
# --nccl-register on the stand-in: gradients in memory that NCCL has allocated and registered, the same bits as without.

setup() {
    scratch=$BATS_TEST_TMPDIR
    export CUDA_STAND_IN_DEVICES=2
}

# train FOLDER OPTIONS...
train() {
    local folder=$1
    shift
    run timeout 200 02_multi_gpu_spawn/train --nproc 2 --device cuda --batch-size 8 --max-steps 6 \
        --checkpoint-dir "$scratch/$folder" "$@"
    echo "$output"
}

@test "the same weights; every bucket is in registered memory, with a graph, too" {
    train off
    [ "$status" -eq 0 ]
    due=13
    for graph in off on; do
        NCCL_STAND_IN_REGISTERED=$scratch/calls-$graph train on-$graph --nccl-register on --cuda-graph $graph
        [ "$status" -eq 0 ]
        cmp <(tail -c 4000000 "$scratch/off/cnn_digits.safetensors") <(tail -c 4000000 "$scratch/on-$graph/cnn_digits.safetensors")
        cat "$scratch/calls-$graph"
        # Rank 0's weights, and two buckets in each of six steps, or in the four before the graph is replayed.
        [ "$(cut -d ' ' -f 2 "$scratch/calls-$graph" | sort -u)" = "$due" ]
        due=9
    done
}

@test "an older library, another backend and a rank without the option are one line each" {
    train tcp --nccl-register on --backend tcp
    [ "$status" -eq 2 ]
    [[ $output == *"--nccl-register on is for --backend nccl, and here it is tcp"* ]]

    mkdir "$scratch/older"
    echo 'int ncclOld;' | ${CC:-cc} -shared -fPIC -x c -o "$scratch/older/libnccl.so.2" -
    LD_LIBRARY_PATH=$scratch/older train older --nccl-register on
    [ "$status" -eq 1 ]
    [[ $output == *"--nccl-register on: "*"undefined symbol: ncclMemAlloc; install a newer one"* ]]
}
