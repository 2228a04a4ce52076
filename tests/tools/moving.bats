#!/usr/bin/env bats
# The recordings in the pictures that move (docs/moving) are those of today's code.

@test "a fresh recording has the messages, rows and lines of code that the pages have" {
    make -s tools/shards "${BUILD:-build}/tools/moving/messages" 01 02 05
    01_single_gpu/train --help | grep -q -- --trace || skip "this build has no --trace"
    run tools/moving/record.py --check
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 6 ]
    run "${BUILD:-build}/tools/moving/messages" ring 9 900
    [ "$status" -eq 2 ]
    [[ $output == *"needs ring, doubling or star, 2 to 8 ranks"* ]]
}
