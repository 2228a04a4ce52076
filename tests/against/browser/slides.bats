#!/usr/bin/env bats
# The slides and the hand-out in a real browser: all fits, the keys work, a slide is a printed page, and nothing is fetched.

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
}

@test "the slides of all chapters fit and can be printed; the hand-out is one page" {
    teach/slides.py "$TMPDIR/slides"
    teach/handout.py "$TMPDIR/slides/handout.html"
    run timeout 900 python3 -B tests/against/browser/slides.py "$TMPDIR/slides" build/browser
    echo "$output"
    [ "$status" -eq 0 ]
}
