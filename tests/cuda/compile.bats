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

# programs: what check-gpu, gpu-ladder and bench-gpu build, and so gpu-first-hour, without the steps.
programs() {
    python3 - <<'END'
import glob, os, re
texts = [re.search("^bench-gpu:.*^gpu-first-hour:", open("bench/rules.mk").read(), re.M | re.S)[0]]
texts += [open(name).read() for name in glob.glob("tests/against/gpu/*.py") + ["bench/gpu.py"]]
found = re.findall(r'\b(?:BUILD\)/|(?:BUILD|build) \+ "/|BUILD, ")((?:bench|tests)[\w/", ]*)', "\n".join(texts))
names = {name.replace('", "', "/").strip('", ') for name in found}
print(*sorted(name for name in names if os.path.exists(name + ".c") or os.path.exists(name + ".cu")), sep="\n")
END
}

@test "the toolkit links every program that a GPU's targets build" {
    [ "$(programs | paste -sd ' ')" = "bench/all_reduce_ladder bench/gpu_kernels bench/gpu_ladder bench/gpu_step bench/trace \
tests/against/gpu/control tests/against/gpu/machine tests/against/gpu/nccl_ranks" ] # others: is the pattern above still right?
    link=(make -s -j "$(nproc)" MPI=0 CUDA=1 CUDA_HOME="$home" CUDA_ARCH=sm_75 BUILD=build/nvcc_link CFLAGS=-O1)
    mapfile -t targets < <(programs | sed 's|^|build/nvcc_link/|')
    for target in "${targets[@]}"; do rm -f "$target"; done
    "${link[@]}" "${targets[@]}" build/nvcc_link/lib05.a
    for target in "${targets[@]}"; do [ -x "$target" ] || { echo "there is no $target" && false; }; done
    for step in 01_single_gpu 02_multi_gpu_spawn 03_torchrun_env 05_fault_tolerance; do
        "${link[@]}" gpu-test PROGRAM="$BATS_TEST_TMPDIR/train" SOURCE="$step/train.c build/nvcc_link/lib05.a"
    done
    for name in $(sed -n 's/^DEVICE_TESTS = //p' tests/against/gpu/check.py | tr -d '[]",'); do
        "${link[@]}" gpu-test PROGRAM="$BATS_TEST_TMPDIR/test" SOURCE="tests/common/nn/test_$name.c" TRY_LIBS=-lcmocka
    done
}

@test "without a GPU each target of a GPU says so in a line, before it builds anything but what asks for one" {
    export CUDA_VISIBLE_DEVICES=''
    for target in gpu-first-hour gpu-ladder bench-gpu check-gpu; do
        rm -rf "$BATS_TEST_TMPDIR/build"
        run make -s "$target" CUDA_HOME="$home" BUILD="$BATS_TEST_TMPDIR/build"
        echo "$output"
        [ "$status" -ne 0 ]
        [ "$(grep -v '^make.*Error' <<<"$output" | grep -c .)" -eq 1 ]
        [[ $output == "make $target: there is no GPU to be used here: "* ]]
        [ "$(find "$BATS_TEST_TMPDIR/build" -name '*.o' -printf '%f\n')" = machine.o ]
    done
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
