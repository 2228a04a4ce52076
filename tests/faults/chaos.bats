#!/usr/bin/env bats
# A chaos soak: for CHAOS_SECONDS (180) faults of all kinds, at random moments.

load faults_helper

@test "chaos: whatever happens, the result is the same" {
    run tests/faults/chaos.py "$OUT/chaos" --seed "$SEED"
    echo "$output"
    [ "$status" -eq 0 ]
    sed 's/^/# /' <<<"$output" >&3
}
