#!/usr/bin/env bats
# The CUDA part with NVIDIA's own compiler, where there is one: for every architecture it knows, without
# a warning; and what comes of it starts as fast as a program without it.

setup() {
    home=${CUDA_HOME:-$(tools/cuda_home.sh)} # as the Makefile finds it
    [ -x "$home/bin/nvcc" ] || skip "there is no nvcc: no kernel was compiled for a GPU"
}

# A build of its own: other checks use the tree's at the same time.
build() { # TARGET [VARIABLE...]
    flags='-O3 -arch=all --threads 0 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror,-fno-exceptions'
    make -s -j "$(nproc)" MPI=0 CUDA=1 CUDA_HOME="$home" BUILD=build/nvcc CFLAGS='-O1 -Werror' \
        NVCCFLAGS="$flags,-fno-threadsafe-statics" "$@"
}

@test "nvcc compiles the kernels for every architecture it knows, without a warning" {
    run build cuda-part
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "a program with the CUDA part needs none of CUDA's libraries to start" {
    build gpu-test PROGRAM=build/nvcc/train SOURCE=01_single_gpu/train.c
    run readelf -d build/nvcc/train
    [[ $output == *NEEDED* ]]
    [[ $output != *cublas* && $output != *nccl* && $output != *libcud* ]]
}
