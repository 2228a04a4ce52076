#!/usr/bin/env bats
# The rungs of extras/gpu_ladder stay what its README promises: short files, and one idea from each to the next.

RUNG_LINES=99 # of a file
DIFF_LINES=60 # that a rung takes away or adds, as a step of the trainer may

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}/extras/gpu_ladder" || return
}

@test "there are nine rungs of at most $RUNG_LINES lines, each of which the program runs" {
    [ "$(echo [0-9]_*.cu | wc -w)" -eq 9 ]
    for rung in [0-9]_*.cu; do
        length=$(wc -l <"$rung")
        echo "$rung: $length lines"
        [ "$length" -le $RUNG_LINES ]
        function=conv2_${rung#?_}
        grep -q "^void ${function%.cu}(const Conv2 \*conv)$" "$rung"
        grep -q "\", ${function%.cu}, " ../../bench/gpu_ladder.c
    done
}

@test "a rung differs by at most $DIFF_LINES lines from the one before, and the fourth from the second" {
    for pair in 12 23 34 45 56 67 78 89 24; do
        length=$(diff "${pair%?}"_*.cu "${pair#?}"_*.cu | grep -c '^[<>]')
        echo "$pair: $length lines"
        [ "$length" -le $DIFF_LINES ]
    done
}
