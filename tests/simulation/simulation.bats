#!/usr/bin/env bats
# The store and the rendezvous, unchanged, over a clock and sockets driven by a seed (README.md).

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    SIMULATE=${BUILD:-build}/tests/simulation/simulate
}

@test "no seed breaks the store" {
    "$SIMULATE" store 64000
}

@test "no seed breaks the rendezvous" {
    "$SIMULATE" rendezvous 28000
}

@test "no seed breaks the nodes that come and go" {
    "$SIMULATE" elastic 4000
}

@test "no seed breaks the ranks that go on without a restart" {
    "$SIMULATE" reconfigure 4000
}

@test "a seed replays exactly" {
    diff <("$SIMULATE" elastic replay 7) <("$SIMULATE" elastic replay 7)
    diff <("$SIMULATE" reconfigure replay 7) <("$SIMULATE" reconfigure replay 7)
    diff <("$SIMULATE" rendezvous replay 7) <("$SIMULATE" rendezvous replay 7)
    ! diff -q <("$SIMULATE" rendezvous replay 7 | tail -n 1) <("$SIMULATE" rendezvous replay 9 | tail -n 1) || false
}

# The hash is of the first simulator, which looked at each socket of each task before each call. A faster one must decide
# the same; a change of what is simulated has another hash.
@test "a faster simulator gives the traces of the first one" {
    SIM_TRACES=1 "$SIMULATE" network 300 | sha256sum | grep -q ^22f3cde32e1a938aae32afeca4723992cdd3251e11c19f2b4dbe2428a3e61ee9
}

# finds FAULT SCENARIO WORDS [SEEDS]: prints after how many seeds.
finds() {
    run "${SIMULATE}_$1" "$2" "${4:-3000}"
    echo "$output"
    [ "$status" -eq 1 ]
    seed=$(echo "$output" | sed -n "s/^seed \([0-9]*\): .*$3.*/\1/p" | head -n 1)
    [ -n "$seed" ]
    echo "# $1: found by seed $seed" >&3
}

@test "planted: a lost wake-up, a double rank, late messages, the store of an attempt that is over, two groups at once are found" {
    [ -e tests/simulation/plant.sh ] || skip "a students' tree does not have the sources in which to plant faults"
    finds lost_wakeup store 'wake-up is lost'
    finds double_rank rendezvous 'two holders'
    finds late_message store 'no order of operations'
    finds stale_attempt elastic 'two holders' 10000
    finds two_groups reconfigure 'two groups in generation'
    finds early_group reconfigure 'still in the generation before'
}
