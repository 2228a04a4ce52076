#!/usr/bin/env bats
# What the README quotes is true.

@test "the table's line counts are those of the diffs" {
    counts=$(sed -n 's/^| .* | \([0-9]*\) |$/\1/p' README.md)
    [ "$counts" = "$(tools/stepdiff.sh --count | awk '{ print $(NF - 2) }')" ]
}

@test "the quoted diff is the real one" {
    sed -n '/^```diff/,/^```$/p' README.md | sed '1d;$d' >"$BATS_TEST_TMPDIR/quoted"
    diff -U1 02_multi_gpu_spawn/train_c_sampler.c 02_multi_gpu_spawn/train.c |
        awk '/^@@/ { hunk++ } hunk > 1' >"$BATS_TEST_TMPDIR/real" # without the header comment
    diff "$BATS_TEST_TMPDIR/quoted" "$BATS_TEST_TMPDIR/real"
}

@test "every file and folder it names is there" {
    for path in $(grep -o '](\([^)#]*\))' README.md */README.md | grep -v http | sed 's/:](/ /; s/)$//' |
        awk '{ n = split($1, part, "/"); print (n > 1 ? part[1] "/" : "") $2 }'); do
        [ -e "$path" ] || { echo "$path" && return 1; }
    done
}
