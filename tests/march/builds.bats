#!/usr/bin/env bats
# One source, several processors: builds in folders of their own, and the tests of all arithmetic in
# each. What this processor cannot run is skipped by name.

KERNELS="kernels conv gradients model optim plain bf16 reduce_order rows_alone"

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

# programs FOLDER: the tests of a build.
programs() {
    for test in $KERNELS; do find tests -name "test_$test.c" | sed "s|\(.*\)\.c|$1/\1|"; done
}

# build NAME MARCH [VARIABLE...]: without the parts that are the same everywhere.
build() {
    BUILT=build/march/$1
    march=$2
    shift 2
    # shellcheck disable=SC2046 # several words
    make -s -j2 BUILD="$BUILT" MARCH="$march" MPI=0 CUDA=0 PNG=0 HTTP=0 "$@" $(programs "$BUILT")
}

run_tests() {
    for program in $(programs "$BUILT"); do
        CMOCKA_MESSAGE_OUTPUT=TAP timeout 900 "$program"
    done
}

# has FEATURE...: does this processor?
has() {
    for feature in "$@"; do
        grep -qsw "$feature" /proc/cpuinfo || skip "this processor has no $feature"
    done
}

# refused CPU FEATURE ADVICE: what was built ends on an emulated processor with a line.
refused() {
    command -v qemu-x86_64 >/dev/null || skip "no qemu-x86_64: ./setup.sh --checks"
    run qemu-x86_64 -cpu "$1" "$BUILT/tests/common/nn/test_optim"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [ "$output" = "test_optim: fatal: built for processors with $2, which this one does not have: build it here, or for both with make MARCH=$3" ]
}

@test "plain x86-64" {
    [ "$(uname -m)" = x86_64 ] || skip "this is no x86-64"
    build x86-64 x86-64
    run_tests
}

@test "AVX2 (x86-64-v3)" {
    has avx2 fma bmi2
    build x86-64-v3 x86-64-v3
    run_tests
}

@test "AVX2, tuned for AMD" {
    has avx2 fma bmi2
    build x86-64-v3-amd x86-64-v3 CFLAGS='-O3 -mtune=znver3'
    run_tests
}

@test "AVX-512 (x86-64-v4)" {
    has avx512f avx512bw avx512cd avx512dq avx512vl
    build x86-64-v4 x86-64-v4
    run_tests
}

@test "x86-64-v2 and v3: PyTorch's losses in step 02, and the same bits from 1, 2, 4 and 8 ranks" {
    has sse4_2 avx2 fma bmi2
    for march in x86-64-v2 x86-64-v3; do
        tests/copy_tree.sh "build/march/tree-$march"
        (
            cd "build/march/tree-$march"
            make -s -j2 MARCH=$march MPI=0 CUDA=0 PNG=0 HTTP=0 02 05
            for losses in linear_sgd_w2 linear_sgd_w4 digits_sgd_w1 digits_sgd_w2 digits_sgd_w4; do
                tests/golden_losses.py $losses 02_multi_gpu_spawn/run.sh
            done
            tools/prove.sh
        )
    done
}

@test "built for AVX2 or AVX-512, on a processor without: one line, no SIGILL" {
    [ "$(uname -m)" = x86_64 ] || skip "this is no x86-64"
    KERNELS=optim
    build x86-64-v3 x86-64-v3
    refused Nehalem avx x86-64
    build x86-64-v4 x86-64-v4
    refused max avx512f x86-64-v3
}

@test "plain x86-64 runs on the first of them" {
    command -v qemu-x86_64 >/dev/null || skip "no qemu-x86_64: ./setup.sh --checks"
    [ "$(uname -m)" = x86_64 ] || skip "this is no x86-64"
    KERNELS=kernels
    build x86-64 x86-64
    qemu-x86_64 -cpu qemu64 "$BUILT/tests/common/nn/test_kernels"
}
