#!/usr/bin/env bats
# The rungs of extras/gpu_ladder on the stand-in: each computes what the plain device does, whatever the order of
# the threads, and a rung with a fault is found.

setup() {
    rungs=extras/gpu_ladder
    objects=()
    for rung in "$rungs"/*.cu; do objects+=("build/${rung%.cu}.o"); done
    make -s build/bench/gpu_ladder
}

# broken RUNG SED: its line of the table, or the program's error, after this change to the rung.
broken() {
    local rung=$rungs/$1.cu program=$BATS_TEST_TMPDIR/broken
    sed "$2" "$rung" >"$program.cu"
    ! cmp -s "$rung" "$program.cu" || false # the edit has changed something
    "$CUDA_HOME/bin/nvcc" -I. -O1 -Xcompiler -fno-exceptions,-fno-threadsafe-statics -c -o "$program.o" "$program.cu"
    make -s gpu-test PROGRAM="$program" SOURCE="bench/gpu_ladder.c ${objects[*]/build\/${rung%.cu}.o/$program.o}" \
        TRY_LIBS="$(ls "$CUDA_HOME"/lib64/libcublas.so.*)"
    run "$program" 1 1
    echo "$output"
    [ "$status" -ne 0 ]
}

@test "every rung computes what the plain device does, in whatever order threads run" {
    for seed in 1 2 3; do
        CUDA_STAND_IN_SEED=$seed run build/bench/gpu_ladder "$seed" 1
        echo "$output"
        [ "$status" -eq 0 ]
        [ "${#lines[@]}" -eq 13 ]
        [ "${lines[0]}" = "CUDA stand-in, $seed images, mean of 1" ]
    done
}

@test "the rungs from tensor cores on round to fp16, the others do not, and each has its share of cuBLAS" {
    run build/bench/gpu_ladder 1 1
    echo "$output"
    tail -n +3 <<<"$output" | awk '
        /^tensor/ { later = 1 }
        { fp16 = $NF > 1e-3; if (fp16 != (later || /fp16/)) bad = 1 }
        /alone/ { time[0] = $3 }
        /fp16/ { time[1] = $4 }
        { share = 100 * time[fp16] / $(NF - 3) - $(NF - 1); if (share > 1 || share < -1) bad = 1 }
        END { exit bad || NR != 11 }'
}

@test "a missing barrier is found" {
    broken 2_shared_tiles '/all of the tile/d'
    [[ $output == *"shared tiles"*"WRONG"* ]]
    broken 4_register_tiles '/no thread needs it/d'
    [[ $output == *"register tiles"*"WRONG"* ]]
}

@test "a copy that nobody waits for, and one over numbers that others still read, are found" {
    for rung in 7_two_buffers 8_warp_tiles 9_ldmatrix; do
        name=${rung#*_}
        broken $rung '/__pipeline_wait_prior/d'
        [[ $output == *"${name/_/ }"*"WRONG"* ]]
        broken $rung '/no thread needs it/d'
        [[ $output == *"${name/_/ }"*"WRONG"* ]]
    done
}

@test "a row of ldmatrix in the wrong place, and a lane that names no row, are found" {
    broken 9_ldmatrix 's/const int row = threadIdx.x % 16/const int row = threadIdx.x % 8/'
    [[ $output == *"ldmatrix"*"WRONG"* ]]
    broken 9_ldmatrix 's/WARP \/ 16 \* 8;/WARP \/ 16 * 4;/'
    [[ $output == *"ldmatrix: lane 16 names no 16 aligned bytes of shared memory"* ]]
}

@test "a piece in the wrong register, and one that a warp does not give, are found" {
    broken 5_tensor_cores 's/"r"(upper), "r"(lower)/"r"(lower), "r"(upper)/'
    [[ $output == *"tensor cores"*"WRONG"* ]]
    broken 5_tensor_cores 's/            multiply(sum/            if (line < 7) &/; s/^ *multiply(sum/if (line < 7) &/'
    [[ $output == *"tensor_cores: of a block, thread"* ]]
}

@test "numbers of images and repeats are checked" {
    for words in 0 4097 x 1x "1 0"; do
        # shellcheck disable=SC2086 # two words
        run build/bench/gpu_ladder $words
        echo "$output"
        [ "$status" -eq 2 ]
        [[ ${#lines[@]} -eq 1 && $output == "gpu_ladder: gpu_ladder [images [repeats]]: "*" is not a number from 1 to "* ]]
    done
}
