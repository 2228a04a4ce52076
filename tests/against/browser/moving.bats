#!/usr/bin/env bats
# The pictures that move, in a real browser: they replay what was recorded, by keys, on desktop and phone.

@test "the pictures that move compute what the library does, and answer to keys" {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
    run timeout 900 python3 -B tests/against/browser/moving.py build/browser
    echo "$output"
    [ "$status" -eq 0 ]
}
