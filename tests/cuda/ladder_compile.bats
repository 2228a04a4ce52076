#!/usr/bin/env bats
# The rungs of extras/gpu_ladder with NVIDIA's own compiler, where there is one: for every architecture it knows,
# without a warning, and with all their numbers in registers.

@test "nvcc compiles every rung for every architecture it knows, without a warning or a spilled register" {
    home=${CUDA_HOME:-$(tools/cuda_home.sh)} # as the Makefile finds it
    [ -x "$home/bin/nvcc" ] || skip "there is no nvcc: no rung was compiled for a GPU"
    objects=()
    for rung in extras/gpu_ladder/*.cu extras/all_reduce_ladder/*.cu; do objects+=("build/nvcc_ladder/${rung%.cu}.o"); done
    rm -f "${objects[@]}" # what ptxas says, it says when it compiles
    run make -s -j "$(nproc)" MPI=0 CUDA=1 CUDA_HOME="$home" BUILD=build/nvcc_ladder \
        NVCCFLAGS='-O3 -arch=all --threads 0 -Werror all-warnings -Xptxas -v -Xcompiler -Wall,-Wextra,-Werror,-fno-exceptions,-fno-threadsafe-statics' "${objects[@]}"
    [ "$status" -eq 0 ] || { echo "$output" && false; }
    grep -E 'entry function|Used|spill' <<<"$output"
    ! grep -i warning <<<"$output" || false
    ! grep 'spill' <<<"$output" | grep -v ' 0 bytes spill stores, 0 bytes spill loads' || false
    kernels=$(cat extras/gpu_ladder/*.cu extras/all_reduce_ladder/*.cu | grep -c '^static __global__')
    [ "$(grep -c ' registers' <<<"$output")" -eq $((kernels * $("$home/bin/nvcc" --list-gpu-code | wc -l))) ]
}
