#!/usr/bin/env bats
# Steps 01 and 02 in a browser (make play): the same bits as natively, on file:// and http, in Chromium, Firefox and WebKit.

setup_file() {
    wasm-opt --version >/dev/null 2>&1 && make -s play >/dev/null || return 0
    tools/moving/hashes.py --check --every 52 >/dev/null # builds the native programs
}

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    [ -e build/play/ranks.js ] || skip "nothing compiles for a browser here (./setup.sh --play)"
}

@test "the page in Chromium: hashes, struck lines, kills, steps, keys, memory; desktop and phone, light and dark" {
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
    run timeout 3000 python3 -B tests/against/browser/play.py chromium build/browser build/play/native
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the page in Firefox" {
    command -v firefox-esr firefox >/dev/null || skip "no Firefox (./setup.sh --browser installs it)"
    run timeout 3000 python3 -B tests/against/browser/play.py firefox build/browser/firefox build/play/native 5
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the page in WebKit, if somebody has installed it" {
    command -v WebKitWebDriver xvfb-run >/dev/null || skip "no WebKit (apt-get install webkit2gtk-driver xvfb: 480 MB)"
    run timeout 3000 python3 -B tests/against/browser/play.py webkit build/browser/webkit build/play/native 13
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "what a click costs: the page weighs 64 kB, and the programs 250 kB" {
    [ "$(cat docs/moving/{play.html,play.js,rank.js,moving.js,moving.css} docs/colours.css | wc -c)" -le 64000 ]
    [ "$(wc -c <build/play/ranks.js)" -le 250000 ]
}
