#!/usr/bin/env bats
# The copies of the tree in which make check-cuda and make check-sanitizers build.

@test "a copy has what the tree has, no more, and keeps what it has built" {
    tree=$BATS_TEST_TMPDIR/tree copy=$BATS_TEST_TMPDIR/tree/build/copy
    mkdir -p "$tree/tests" "$tree/common" "$tree/build" "$tree/01_step"
    cp "${BATS_TEST_DIRNAME%/tests/*}/tests/copy_tree.sh" "$tree/tests"
    touch "$tree/common/before.c" "$tree/.hidden" "$tree/build/before.o"
    touch -d '1 hour ago' "$tree/common/old.c"
    "$tree/tests/copy_tree.sh" "$copy"
    touch "$copy/build/mine.o"
    touch "$tree/01_step/train.c" "$tree/01_step/train"
    mv "$tree/common/before.c" "$tree/common/after.c"
    "$tree/tests/copy_tree.sh" "$copy"

    [ "$(cd "$copy" && find . -type f | sort | paste -sd ' ')" = "./.hidden ./01_step/train.c \
./build/mine.o ./common/after.c ./common/old.c ./tests/copy_tree.sh" ] # a program of the tree is not one of the copy
    [ ! "$copy/common/old.c" -nt "$tree/common/old.c" ] # nothing is compiled again for the copy's sake
}
