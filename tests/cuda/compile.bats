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
    run sh -c "readelf -d build/nvcc/train | grep NEEDED" # RUNPATH may name any folder
    [[ $output == *libc.so* ]]
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

# The toolkit as pip lays it out (bin, include, lib in one folder of a wheel), in a view without /usr/local: a toolkit there
# would be found by links, and hide what is missing.
@test "a toolkit from pip is found by itself, and links" {
    unshare -m true 2>/dev/null || skip "this user may not make a view of the machine without /usr/local"
    site=$BATS_TEST_TMPDIR/site/nvidia/cu13
    mkdir -p "$site" "$BATS_TEST_TMPDIR/toolkit"
    for part in bin include nvvm; do ln -s "$BATS_TEST_TMPDIR/toolkit/$part" "$site/$part"; done
    ln -s "$BATS_TEST_TMPDIR/toolkit/lib64" "$site/lib"
    cat >"$BATS_TEST_TMPDIR/view" <<'END'
mount --bind "$1" "$2/toolkit" && mount -t tmpfs none /usr/local || exit 77
export PYTHONPATH="$2/site" PATH=/usr/bin:/bin:/usr/sbin:/sbin
[ "$(tools/cuda_home.sh)" -ef "$2/toolkit" ] || [ "$(tools/cuda_home.sh)" = "$2/site/nvidia/cu13" ] || exit 1
make -s MPI=0 BUILD="$2/build" "$2/build/tests/against/gpu/machine" && readelf -d "$2/build/tests/against/gpu/machine"
END
    run env -u CUDA_HOME -u CUDA_LIB -u LIBRARY_PATH -u LD_LIBRARY_PATH -u MAKEFLAGS unshare -m sh "$BATS_TEST_TMPDIR/view" "$home" "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -ne 77 ] || skip "nothing may be mounted here"
    [ "$status" -eq 0 ]
    [[ $output == *RUNPATH*"$BATS_TEST_TMPDIR"* ]]
}
