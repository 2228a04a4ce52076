#!/usr/bin/env bats
# The CUDA part with NVIDIA's own compiler, where there is one: for every architecture it knows, without
# a warning or a spilled register; and what comes of it starts as fast as a program without it.

setup() {
    home=${CUDA_HOME:-$(tools/cuda_home.sh)} # as the Makefile finds it
    [ -x "$home/bin/nvcc" ] || skip "there is no nvcc: no kernel was compiled for a GPU"
}

# A build of its own: other checks use the tree's at the same time.
build() { # TARGET [VARIABLE...]
    flags='-O3 -arch=all --threads 0 -Werror all-warnings -Xptxas --warn-on-spills'
    make -s -j "$(nproc)" MPI=0 CUDA=1 CUDA_HOME="$home" BUILD=build/nvcc CFLAGS='-O1 -Werror' \
        NVCCFLAGS="$flags -Xcompiler -Wall,-Wextra,-Werror,-fno-exceptions,-fno-threadsafe-statics" "$@"
}

@test "nvcc compiles the kernels for every architecture it knows, without a warning or a spilled register" {
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

# instructions FILE KERNEL PATTERN: how many of its PTX match, in all of the file's kernels of that name.
instructions() {
    "$home/bin/nvcc" -I. -O3 -ptx -o "$BATS_TEST_TMPDIR/kernels.ptx" "common/nn/cuda/$1.cu"
    awk -v kernel="$2" -v pattern="$3" '
        /\.entry/ { inside = $0 ~ kernel; found += inside }
        inside && $0 ~ pattern { count++ }
        END { print found " kernels, " count + 0 " instructions" }' "$BATS_TEST_TMPDIR/kernels.ptx"
}

@test "kernels for the second convolution divide by constants, and adam computes nothing in double" {
    run instructions cuda_im2col SecondConv '(div|rem)\.[su]'
    [ "$output" = "6 kernels, 0 instructions" ] # im2col and col2im, in three types
    run instructions cuda_pointwise SecondConv '(div|rem)\.[su]'
    [ "$output" = "4 kernels, 0 instructions" ] # pooling, and its gradient in three types
    run instructions cuda_optim 4adamm '\.f64'
    [ "$output" = "1 kernels, 0 instructions" ]
    run instructions cuda_optim 13write_factors '\.f64'
    [[ "$output" = "1 kernels, "[1-9]* ]]
}
