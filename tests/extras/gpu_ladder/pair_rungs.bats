#!/usr/bin/env bats
# The rungs of extras/all_reduce_ladder stay short, with one idea from each to the next.

@test "there are six rungs of at most 99 lines, and each differs from the one before by at most 90" {
    cd "${BATS_TEST_DIRNAME%/tests/*}/extras/all_reduce_ladder" || return
    [ "$(echo [0-9]_*.cu | wc -w)" -eq 6 ]
    before=''
    for rung in [0-9]_*.cu; do
        [ "$(wc -l <"$rung")" -le 99 ]
        [ -z "$before" ] || [ "$(diff "$before" "$rung" | grep -c '^[<>]')" -le 90 ]
        before=$rung
    done
}
