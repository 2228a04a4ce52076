#!/usr/bin/env bats
# The rungs of extras/all_reduce_ladder on two GPUs of the stand-in: each gives the sum on both, in any timing, and
# a rung with a fault is found.

setup() {
    export CUDA_STAND_IN_DEVICES=2
    rungs=extras/all_reduce_ladder
    objects=()
    for rung in "$rungs"/[0-9]*.cu; do objects+=("build/${rung%.cu}.o"); done
    make -s build/bench/all_reduce_ladder
}

# broken RUNG SED: the table, or the program's error, after this change to the rung. Without a barrier the sum is right
# while both GPUs happen to be in step, so many timings are tried.
broken() {
    local rung=$rungs/$1.cu program=$BATS_TEST_TMPDIR/broken
    sed "$2" "$rung" >"$program.cu"
    ! cmp -s "$rung" "$program.cu" || false # the edit has changed something
    "$CUDA_HOME/bin/nvcc" -I. -O1 -Xcompiler -fno-exceptions,-fno-threadsafe-statics -c -o "$program.o" "$program.cu"
    make -s gpu-test PROGRAM="$program" SOURCE="bench/all_reduce_ladder.c ${objects[*]/build\/${rung%.cu}.o/$program.o}" \
        TRY_LIBS="$(ls "$CUDA_HOME"/lib64/libnccl.so.*)"
    for seed in $(seq 100); do
        CUDA_STAND_IN_SEED=$seed run timeout 100 "$program" 20001 4
        [ "$status" -eq 0 ] || break
    done
    echo "$seed: $output"
    [ "$status" -ne 0 ]
}

@test "every rung gives the exact sum on both GPUs, also of one number" {
    for numel in 1 2 70001; do
        CUDA_STAND_IN_SEED=$numel run timeout 100 build/bench/all_reduce_ladder "$numel" 2
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(grep -cE '^[a-zNCLAPI ,]+ [0-9.]+ +[0-9.]+ +0\.0e\+00$' <<<"$output")" -eq 6 ]
        grep -qx "two of CUDA stand-in, $numel floats, mean of 2" <<<"$output"
    done
}

@test "one GPU, and two that do not reach each other's memory, are said in a line" {
    CUDA_STAND_IN_DEVICES=1 run build/bench/all_reduce_ladder
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = "six ways to sum over two GPUs are left out: this machine has 1" ]
    CUDA_STAND_IN_PEERS=0 run timeout 100 build/bench/all_reduce_ladder 1000 1
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c "these GPUs do not reach each other's memory" <<<"$output")" -eq 3 ]
}

@test "a barrier of the host that is missing is found" {
    broken 1_by_host "/the other GPU's data is ready/d"
    [[ $output == *"by the host"*WRONG* ]]
    broken 2_peer_copy "/the other GPU's data is ready/d"
    [[ $output == *"peer copy"*WRONG* ]]
    broken 2_peer_copy '/the other GPU has copied, too/d'
    [[ $output == *"peer copy"*WRONG* ]]
}

@test "flags that are missing, and a block that waits for the wrong one, are found" {
    for meeting in "the other GPU's data is ready" 'the other GPU has summed its half'; do
        broken 3_ring_kernel "/$meeting/d"
        [[ $output == *"ring kernel"*WRONG* ]]
    done
    for meeting in "the other GPU's data is ready" 'the other GPU has summed its half'; do
        broken 6_nccl_device "/$meeting/d"
        [[ $output == *"device API"*WRONG* ]]
    done
    export CUDA_STAND_IN_PAUSE_SECONDS=3
    broken 3_ring_kernel 's/while (flags\[blockIdx.x\]/while (flags[(blockIdx.x + 1) % BLOCKS]/'
    [[ $output == *"ring: thread (0, 0, 0) of block "*" waits for memory that nobody writes"* ]]
}

@test "memory that is freed while the other process has it open, and a handle of its own, are found" {
    broken 2_peer_copy '/cudaIpcCloseMemHandle/d'
    [[ $output == *"cudaFree: an array of 80004 bytes that another process has open"* ]]
    broken 2_peer_copy 's/handles\[1 - pair->rank\]/handles[pair->rank]/'
    [[ $output == *"cudaIpcOpenMemHandle: the memory is this process's own"* ]]
    broken 2_peer_copy 's/CUDA_CHECK(cudaIpcCloseMemHandle(pair->peer))/cudaFree(pair->peer)/'
    [[ $output == *"cudaFree: memory of another process"* ]]
    broken 3_ring_kernel 's/pair->data, pair->peer, pair->numel, pair->rank/pair->data, pair->data + pair->numel, pair->numel, pair->rank/'
    [[ $output == *"ring"*"touches device memory"* || $output == *"argument 2 points to no device memory"* ]]
}

@test "a window of other sizes, and sums at other places of it, are found" {
    broken 5_nccl_symmetric 's/pair->data, bytes, &pair->window/pair->data, bytes - pair->rank * 4, \&pair->window/'
    [[ $output == *"NCCL: a window of "*" bytes on rank "* ]]
    broken 5_nccl_symmetric 's/ncclAllReduce(pair->data, pair->data, pair->numel/ncclAllReduce(pair->data + pair->rank, pair->data + pair->rank, pair->numel - 1/'
    [[ $output == *"NCCL: a collective at "*" of a symmetric window, and on rank "* ]]
}
