#!/usr/bin/env bats
# The CUDA part with NVIDIA's own compiler, where there is one: for every architecture it knows, without
# a warning; and what comes of it starts as fast as a program without it.

setup() {
    nvcc=$(command -v nvcc) || nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
    [ -x "$nvcc" ] || skip "there is no nvcc: no kernel was compiled for a GPU"
    home=${nvcc%/bin/nvcc}
}

@test "nvcc compiles the kernels for every architecture it knows, without a warning" {
    flags='-O3 -arch=all --threads 0 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror,-fno-exceptions'
    run make -s -j "$(nproc)" MPI=0 CUDA=1 CUDA_HOME="$home" BUILD=build/nvcc CFLAGS='-O1 -Werror' \
        NVCCFLAGS="$flags,-fno-threadsafe-statics" cuda-part
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a program with the CUDA part needs none of CUDA's libraries to start" {
    run make -s CUDA=1 CUDA_HOME="$home" 01_single_gpu/train
    [ "$status" -eq 0 ]
    run readelf -d 01_single_gpu/train
    [[ $output == *NEEDED* ]]
    [[ $output != *cublas* && $output != *nccl* && $output != *libcud* ]]
}
