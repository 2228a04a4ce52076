#!/usr/bin/env bats
# --device plain --amp bf16: the tests of --device cpu's bf16; one line that describes it; nearly the same losses.

@test "plain passes the tests of bf16" {
    TEST_DEVICE=plain CMOCKA_MESSAGE_OUTPUT=TAP "${BUILD:-build}/tests/extras/fast_cpu/test_bf16"
}

# losses DEVICE AMP: of two steps. Later a sum that differs in its last bit is rounded to another bf16 here and there.
losses() {
    01_single_gpu/train --device "$1" --amp "$2" --threads 1 --dropout off --epochs 1 --max-steps 2 --save-every 0 \
        --metrics-dir "$BATS_TEST_TMPDIR/$1-$2" >"$BATS_TEST_TMPDIR/$1-$2.log" 2>&1
    jq .loss "$BATS_TEST_TMPDIR/$1-$2/rank0.jsonl"
}

# apart ONE OTHER: the largest relative difference of these losses.
apart() {
    paste -d ' ' <(echo "$1") <(echo "$2") |
        awk '{ d = ($1 - $2) / $2; d = d < 0 ? -d : d; if (d > worst) worst = d } END { print worst + 0 }'
}

@test "plain and cpu round the same numbers: losses 1e-6 apart, and 1e-5 from those without bf16" {
    plain=$(losses plain bf16) cpu=$(losses cpu bf16) exact=$(losses plain off)
    [ "$(wc -l <<<"$plain")" -eq 2 ]
    echo "plain - cpu: $(apart "$plain" "$cpu"), plain - exact: $(apart "$plain" "$exact")"
    awk -v same="$(apart "$plain" "$cpu")" -v other="$(apart "$plain" "$exact")" \
        'BEGIN { exit !(same < 1e-6 && other > 1e-5) }'
    [ "$(grep -c 'the plain device rounds to bf16' "$BATS_TEST_TMPDIR/plain-bf16.log")" -eq 1 ]
    ! grep bf16 "$BATS_TEST_TMPDIR/plain-off.log"
}
