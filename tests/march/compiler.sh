#!/bin/sh
# Usage: [EMULATOR='qemu-aarch64 -L DIR'] [LDFLAGS=...] tests/march/compiler.sh CC MARCH      Everything, built by this
# compiler in a copy of the tree, where a warning is an error; then the tests of all arithmetic, and PyTorch's losses.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
tree=build/march/tree-$1
tests/copy_tree.sh "$tree"
cd "$tree"
tests=$(for test in kernels conv gradients model optim plain bf16 reduce_order rows_alone; do
    find tests -name "test_$test.c" | sed 's|\(.*\)\.c|build/\1|'
done)
# shellcheck disable=SC2086 # several words
make -s -j2 CC="$1" MARCH="$2" CFLAGS='-O3 -g -Werror' LDFLAGS="${LDFLAGS:-}" MPI=0 CUDA=0 PNG=0 HTTP=0 all $tests
for test in $tests; do
    # shellcheck disable=SC2086 # several words
    CMOCKA_MESSAGE_OUTPUT=TAP timeout 1800 ${EMULATOR:-} "$test"
done
# shellcheck disable=SC2086 # several words
tests/march/losses.sh ${EMULATOR:-}
