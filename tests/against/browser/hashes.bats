#!/usr/bin/env bats
# docs/moving/play.html names what the native programs write, built with FMA=0, for each setting that it offers.

@test "the native programs write what play.html says: in a sample (SAMPLE) some of the settings" {
    run tools/moving/hashes.py --check ${SAMPLE:+--every 9}
    echo "$output"
    [ "$status" -eq 0 ]
}
