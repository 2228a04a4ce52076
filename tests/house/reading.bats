#!/usr/bin/env bats
# The first reading, which common/README.md lists: it is short, and what is said about its files is so.

@test "at most 6,000 lines in at most 50 files, each of them there and as long as it says" {
    run "${BATS_TEST_DIRNAME%/tests/*}/tests/house/reading.py"
    echo "$output"
    [ "$status" -eq 0 ]
    read -r lines _ _ files _ <<<"${output//,/}"
    [ "$lines" -le 6000 ]
    [ "$files" -le 50 ]
}
