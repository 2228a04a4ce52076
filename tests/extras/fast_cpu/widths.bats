#!/usr/bin/env bats
# The CPU's kernels, built for every width of vectors that this processor can execute, pass their tests: a machine with
# AVX-512 finds what goes wrong on one without. x86-64-v3-amd is AVX2 as GCC tunes it for AMD, which adds what plain v3 does
# not show. (make check-march builds the whole project so, and runs PyTorch's losses and make prove.)

# built_for MARCH FEATURE...: the tests of the kernels in such a build.
built_for() {
    march=$1
    shift
    for feature in "$@"; do
        grep -qsw "$feature" /proc/cpuinfo || skip "this processor has no $feature"
    done
    programs=$(printf "${BUILD:-build}/widths/$march/test_%s\n" kernels conv plain bf16 reduce_order rows_alone)
    # shellcheck disable=SC2086 # several words
    make -s $programs
    for program in $programs; do
        CMOCKA_MESSAGE_OUTPUT=TAP "$program"
    done
    for test in rows_alone bf16; do
        TEST_DEVICE=plain CMOCKA_MESSAGE_OUTPUT=TAP "${BUILD:-build}/widths/$march/test_$test"
    done
}

setup() {
    [ "$(uname -m)" = x86_64 ] || skip "this is no x86-64"
}

@test "the kernels for x86-64-v2: 4 lanes, no fused multiply-add" {
    built_for x86-64-v2 sse4_2
}

# bats test_tags=slow
@test "the kernels for AVX2 (x86-64-v3)" {
    built_for x86-64-v3 avx2 fma bmi2
}

@test "the kernels for AVX2, tuned for AMD" {
    if grep -qx MARCH=native "${BUILD:-build}/parts" && grep -q AuthenticAMD /proc/cpuinfo && ! grep -qw avx512f /proc/cpuinfo; then
        skip "the kernels of this build are such ones, and other files test them"
    fi
    built_for x86-64-v3-amd avx2 fma bmi2
}

# bats test_tags=slow
@test "the kernels for AVX-512 (x86-64-v4)" {
    built_for x86-64-v4 avx512f avx512bw avx512cd avx512dq avx512vl
}
