#!/usr/bin/env bats
# docs/moving/play.html names what the native programs write, built with FMA=0, for each setting that it offers.

@test "the native programs write what play.html says: some settings, SLOW=all tries all" {
    every=9 # of 52
    [ "${SLOW:-}" != all ] || every=1
    run tools/moving/hashes.py --check --every "$every"
    echo "$output"
    [ "$status" -eq 0 ]
}
