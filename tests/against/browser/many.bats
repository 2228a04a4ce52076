#!/usr/bin/env bats
# bats file_tags=slow
# The page of tools/watch at a job of 64 ranks, for two viewers and one that reads a byte a second.

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    [ -x tools/watch ] || skip "tools/watch is not built: no libmicrohttpd (./setup.sh installs it)"
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
}

@test "64 ranks stay readable while one is stopped and killed, and a slow viewer keeps nobody" {
    run timeout 900 python3 -u -B tests/against/browser/many.py build/browser
    echo "$output"
    [ "$status" -eq 0 ]
}
