#!/usr/bin/env bats
# The page of tools/serve in a real browser: digits drawn with mouse and finger get their answers.

setup_file() {
    export MODEL=build/browser/cnn_digits.safetensors # trained once
    [ -e $MODEL ] || 01_single_gpu/run.sh 10 0 --checkpoint-dir build/browser >/dev/null
}

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    [ -x tools/serve ] || skip "tools/serve is not built: no libmicrohttpd (./setup.sh installs it)"
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
}

@test "a drawn 7 and a drawn 3 are seen as such, on desktop and phone, light and dark" {
    run timeout 900 python3 -B tests/against/browser/page.py "$MODEL" build/browser
    echo "$output"
    [ "$status" -eq 0 ]
}
