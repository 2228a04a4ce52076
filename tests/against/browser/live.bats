#!/usr/bin/env bats
# The page of tools/watch in a real browser, while a rank of a running job is stopped, goes on and is killed.

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    [ -x tools/watch ] || skip "tools/watch is not built: no libmicrohttpd (./setup.sh installs it)"
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
}

@test "two viewers see who waits for whom, on desktop and phone, light and dark" {
    run timeout 900 python3 -B tests/against/browser/live.py build/browser
    echo "$output"
    [ "$status" -eq 0 ]
}
