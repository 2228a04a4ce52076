#!/usr/bin/env bats
# How tests are run and counted: what fails, breaks off or is skipped is named, and the status tells.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests*}" || return
    scratch=$(mktemp -d)
    export TAP_DIR=$scratch/tap BUILD=$scratch TRIES=1
}

teardown() {
    rm -rf "$scratch"
}

# prove COMMAND: runs a program of two tests, as cmocka prints them: this command, and one that is skipped.
prove() {
    mkdir -p "$BUILD/tests"
    cat >"$BUILD/tests/test_net" <<END
#!/bin/sh
echo 1..2
if $1; then echo ok 1 - watched; failed=0; else echo not ok 1 - watched; echo "# its last words"; failed=1; fi
echo "not ok 2 # SKIP left_out"
exit \$failed
END
    chmod +x "$BUILD/tests/test_net"
    run tests/run_tests.sh tests/test_net.c
    echo "$output"
}

@test "what passes is counted, what is skipped named" {
    prove true
    [ "$status" -eq 0 ]
    [[ $output == *"skipped: ok 2 # SKIP left_out"* ]]
    [ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
}

@test "what fails is named with what it said" {
    prove false
    [ "$status" -ne 0 ]
    [[ $output == *"failed: $TAP_DIR/tests/test_net.c.tap: not ok 1 - watched"*"# its last words"* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 1 skipped" ]
}

@test "what breaks off has failed" {
    prove 'kill -9 $$' # of the program's shell
    [ "$status" -ne 0 ]
    [[ $output == *"failed: "*"broke off after 0 of 2 tests"* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 0 skipped" ]
}

@test "TRIES=2: what fails once is run again, and named" {
    TRIES=2 prove "mkdir '$scratch/been'"
    [ "$status" -eq 0 ]
    [[ $output != *"failed at first"* ]]
    TRIES=2 prove "! rmdir '$scratch/been'"
    [ "$status" -eq 0 ]
    [[ $output == *"== once more, alone"*"failed at first: "*"not ok 1 - watched"*"# its last words"* ]]
    [ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
}

@test "TRIES=2: what fails twice has failed" {
    TRIES=2 prove "! echo more >>'$scratch/times'"
    [ "$status" -ne 0 ]
    [ "$(wc -l <"$scratch/times")" -eq 2 ]
    [[ $output == *"failed at first: "*"failed: "*"not ok 1 - watched"* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 1 skipped" ]
}

@test "TRIES=2: a run that was killed has failed, and a test that is not there" {
    printf '#!/bin/sh\n[ ! -e %s/been ] || exec %s "$@"\ntouch %s/been; kill -9 $$\n' \
        "$scratch" "$(type -P prove)" "$scratch" >"$scratch/prove"
    chmod +x "$scratch/prove"
    PATH=$scratch:$PATH TRIES=2 prove true
    [ "$status" -ne 0 ]
    TRIES=2 run tests/run_tests.sh tests/test_net.c tests/nosuch.bats
    [ "$status" -eq 2 ]
    [ "$output" = "tests/run_tests.sh: there is no test tests/nosuch.bats" ]
}

@test "no test has a line that cannot fail: '! command', unless it is the last, needs an '|| false'" {
    shopt -s globstar
    awk 'FNR == 1 { negated = "" }
        /^ *(#|$)/ { next }
        negated != "" && !/^ *}$/ { print negated; bad = 1 }
        { negated = /^ +! / && !/\|\|/ ? FILENAME ":" FNR ":" $0 : "" }
        END { exit bad }' tests/**/*.bats tests/*.bash tests/*/*.bash
}
