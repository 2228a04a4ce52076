#!/usr/bin/env bats
# The models in beyond/proved: Spin tries every order of events, and finds what is broken on purpose.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    command -v spin >/dev/null || skip "there is no spin (./setup.sh --checks)"
}

# holds MODEL [-D...]: no order of events goes wrong, and there are enough of them to mean something.
holds() {
    run beyond/proved/check.sh "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ ^"$*: "([0-9]+)" states, no error"$ ]]
    [ "${BASH_REMATCH[1]}" -gt 100 ]
}

# fails HOW MODEL [-D...]: Spin finds a counter-example with such an error.
fails() {
    local how=$1
    shift
    run beyond/proved/check.sh "$@"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ ${lines[0]} == "$*: $how"*", after "*" states" ]]
    [[ $output == *"trail ends after"* ]]
}

@test "ring: every block is summed on each rank, with and without buffers" {
    holds ring
    holds ring -DN=4 -DBUFFERS=1
}

@test "ring: all send first, and hang unless the network has room; a wrong first block is a wrong sum" {
    fails 'invalid end state' ring -DBREAK=1
    holds ring -DBREAK=1 -DBUFFERS=1
    fails 'assertion violated' ring -DBREAK=2
}

@test "stop: all ranks leave after the same step" {
    holds stop
}

@test "stop: a rank that leaves at once, reads its own number, or reads it in other steps, leaves alone" {
    for break in 1 2 3; do fails 'invalid end state' stop -DBREAK=$break; done
}

@test "ranks: one holder for each, though nodes die, are cut off or are slow" {
    holds ranks
}

@test "ranks: without the attempt's key, heartbeats or a way back into the queue" {
    fails 'assertion violated (all' ranks -DBREAK=1
    fails 'invalid end state' ranks -DBREAK=2
    fails 'assertion violated (left' ranks -DBREAK=3
}

@test "reconfigure: one group at a time, all at the same step" {
    holds reconfigure
    holds reconfigure -DN=3
}

@test "reconfigure: without compare_set, fence, transfer, last word, a wait for the dead or a look at the own seat" {
    fails 'assertion violated  !(rec' reconfigure -DBREAK=1
    fails 'invalid end state' reconfigure -DBREAK=2
    fails 'assertion violated ((rec' reconfigure -DN=3 -DBREAK=3
    fails 'invalid end state' reconfigure -DBREAK=4
    fails 'assertion violated ((in' reconfigure -DF=2 -DBREAK=5
    fails 'invalid end state' reconfigure -DF=2 -DBREAK=6
}

@test "a checker that runs out of depth has not verified anything" {
    PAN=-m50 run beyond/proved/check.sh ring
    [ "$status" -eq 2 ]
    [[ $output == *"not all states were visited"* ]]
}

@test "the page quotes what they print" {
    run tools/docs.py check beyond/proved/README.md # not by tests/docs, which a students' tree does not have
    echo "$output"
    [ "$status" -eq 0 ]
}
