#!/usr/bin/env bats
# Another compiler than gcc, and no optimization.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

@test "clang: no warning anywhere" {
    command -v clang >/dev/null || skip "no clang: ./setup.sh --checks"
    tests/march/compiler.sh clang x86-64-v3
}

@test "-O0, by cc and clang: no warning anywhere; PyTorch's losses in step 01" {
    command -v clang >/dev/null || skip "no clang: ./setup.sh --checks"
    tests/copy_tree.sh build/march/tree-O0
    cd build/march/tree-O0
    for compiler in cc clang; do
        make -s -j2 BUILD=build/$compiler CC=$compiler CFLAGS='-O0 -g -Werror' MPI=0 CUDA=0 PNG=0 HTTP=0 all
        tests/golden_losses.py linear_sgd_w1 01_single_gpu/run.sh
        TEST_STEPS=5 tests/golden_losses.py digits_sgd_w1 01_single_gpu/run.sh
    done
}
