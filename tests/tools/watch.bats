#!/usr/bin/env bats
# tools/watch as its clients see it, while a job trains, hangs, fails and restarts. (What people see, the page, is make
# check-browser's.)

setup() {
    [ -x tools/watch ] || skip "tools/watch is not built: no libmicrohttpd (./setup.sh installs it)"
    export TMPDIR=$BATS_TEST_TMPDIR
}

watch() {
    run timeout 300 python3 -B tests/tools/watch.py "$BATS_TEST_TMPDIR" "$1"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "a report has the ranks, their lanes and losses, the snapshots and the store's keys" {
    watch shows
}

@test "a job that has resumed between two logged steps has a loss" {
    watch resumed
}

@test "a stopped rank is named, goes on, and a killed one makes the job restart" {
    watch signals
}

@test "bad requests get a status and a sentence, and no signal is sent without the token" {
    watch refusals
}

@test "another site's page, whose name leads here, and who has not the token, get nothing of the job" {
    watch strangers
}

@test "a record that names another process ends nothing, and shows nothing of it" {
    watch crafted
}

@test "two viewers get all reports, a slow one keeps nobody, of a crowd the oldest leave" {
    watch viewers
}

@test "SIGTERM and Ctrl+C end it cleanly, and without viewers it reads nothing" {
    watch ends
}

@test "signals are off where others could send them" {
    watch elsewhere
}

@test "a port that no rank has is one line" {
    run timeout 200 tools/watch 1
    [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"no rank on this machine has MASTER_PORT=1"* ]]
    run timeout 200 tools/watch
    [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ]
    run timeout 200 tools/watch "$BATS_TEST_TMPDIR" --control maybe
    [ "$status" -eq 2 ]
}
