#!/usr/bin/env bats
# How tests are run and counted: each test that fails, hangs, breaks off or is skipped is named; a file that
# passes when it is run again alone is flaky; the status is 0 only if nothing failed.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    scratch=$(mktemp -d)
    export TAP_DIR=$scratch/tap BUILD=$scratch
    unset ONLY RERUN CHECK TEST_TIMEOUT JOBS SAMPLE
    mkdir -p "$scratch/tests/common/comm/store"
}

teardown() {
    rm -rf "$scratch"
}

# program NAME COMMAND: two tests, as cmocka prints them: this command, and one that is skipped.
program() {
    local test
    test=$(find tests -name "test_$1.c")
    mkdir -p "$scratch/${test%/*}"
    cat >"$scratch/${test%.c}" <<END
#!/bin/sh
echo 1..2
if $2; then echo ok 1 - watched; failed=0; else echo not ok 1 - watched; echo "# its last words"; failed=1; fi
echo "not ok 2 # SKIP left_out"
exit \$failed
END
    chmod +x "$scratch/${test%.c}"
}

# prove COMMAND: runs a program of two tests of which the first is this command.
prove() {
    program net "$1"
    run tests/run_tests.sh tests/common/comm/store/test_net.c
    echo "$output"
}

@test "what passes is counted, what is skipped named" {
    prove true
    [ "$status" -eq 0 ]
    [[ $output == *"skipped: tests/common/comm/store/test_net.c: 2 # SKIP left_out"* ]]
    [[ $output != *"== once more"* ]]
    [ "${lines[-2]}" = "flaky: 0 of 1 files" ]
    [ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
}

@test "a file that fails twice has failed: the summary shows its last lines and the command that repeats it" {
    prove "! echo more >>'$scratch/times'"
    [ "$status" -ne 0 ]
    [ "$(wc -l <"$scratch/times")" -eq 2 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: 1 - watched"*"# its last words"*"again: make test ONLY=tests/common/comm/store/test_net.c SEED="* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 1 skipped" ]
}

@test "a file that fails, and passes alone, is flaky" {
    prove "! mkdir '$scratch/been' 2>/dev/null"
    [ "$status" -eq 0 ]
    [[ $output == *"== once more, alone: tests/common/comm/store/test_net.c"* ]]
    [[ $output == *"flaky: tests/common/comm/store/test_net.c: 1 - watched: failed ("*" s), passed alone ("*" s)"* ]]
    [[ $output != *"failed: "* ]]
    [ "${lines[-2]}" = "flaky: 1 of 1 files" ]
    [ "${lines[-1]}" = "1 passed, 0 failed, 1 skipped" ]
}

@test "a file that hangs is ended, and runs once more" {
    NUMBER=$((10000 + $$)) # of nobody else
    TEST_TIMEOUT=2 prove "sleep $NUMBER"
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: timed out after "*" s, 0 of 2 tests"* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 0 skipped" ]
    TEST_TIMEOUT=2 prove "! mkdir '$scratch/hung' 2>/dev/null || sleep $NUMBER"
    [ "$status" -eq 0 ]
    [[ $output == *"flaky: tests/common/comm/store/test_net.c: timed out after "* ]]
    ! pgrep -f "^sleep $NUMBER$" || false
}

# seven of them, COMMAND for each, with $name
seven() {
    local names='net rng ddp idx tcp log stop' files=()
    for name in $names; do
        program "$name" "${1//NAME/$name}"
        files+=("$(find tests -name "test_$name.c")")
    done
    run tests/run_tests.sh "${files[@]}"
    echo "$output"
}

@test "up to five files may be flaky" {
    seven "case NAME in net | rng) ;; *) ! mkdir '$scratch/NAME' 2>/dev/null ;; esac"
    [ "$status" -eq 0 ]
    [ "${lines[-2]}" = "flaky: 5 of 7 files" ]
    [ "${lines[-1]}" = "7 passed, 0 failed, 7 skipped" ]
}

@test "of more than five that fail none is run again, and the run fails" {
    seven "case NAME in net) ;; *) ! mkdir '$scratch/NAME' 2>/dev/null ;; esac"
    [ "$status" -ne 0 ]
    [[ $output != *"== once more"* ]]
    [[ $output == *"6 files failed: more than 5 are not run again"* ]]
    [ "${lines[-1]}" = "1 passed, 6 failed, 7 skipped" ]
}

@test "a file that breaks off has failed, and so has one whose tests pass but whose status is not 0" {
    prove 'kill -9 $$' # of the program's shell
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: was killed after"*"0 of 2 tests"* ]]
    prove 'exit 0'
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: broke off after 0 of 2 tests"* ]]
    prove '{ trap "exit 23" EXIT; echo "what it says" >&2; }'
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: ended with status 23, though its tests passed"*"what it says"* ]]
}

@test "RERUN=never: chance decides what is tried, so a failure counts" {
    RERUN=never prove "! mkdir '$scratch/been' 2>/dev/null"
    [ "$status" -ne 0 ]
    [[ $output != *"== once more"* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 1 skipped" ]
    tests/again.sh "$TAP_DIR" # as .ci/run does at its end
    [ ! -e "$TAP_DIR.again" ]
}

@test "RERUN=later: the run ends well, and .ci/run knows what to run again" {
    TAP_DIR=$scratch/ci/check-tcp CHECK=check-tcp RERUN=later prove "! echo more >>'$scratch/times'"
    [ "$status" -eq 0 ]
    printf '#!/bin/sh\necho "make $*"; cd %s; TAP_DIR=$TAP_DIR CHECK=check-tcp exec tests/run_tests.sh tests/common/comm/store/test_net.c\n' \
        "$PWD" >"$scratch/make"
    chmod +x "$scratch/make"
    PATH=$scratch:$PATH run tests/again.sh "$scratch/ci"
    [[ $output == *"make -s check-tcp ONLY=tests/common/comm/store/test_net.c"* ]]
    run tests/summary.py "$scratch/ci"
    [[ $output == *"again: make check-tcp ONLY=tests/common/comm/store/test_net.c"* ]]
    [ "${lines[-1]}" = "0 passed, 1 failed, 1 skipped" ]
    program net true
    PATH=$scratch:$PATH run tests/again.sh "$scratch/ci"
    echo "sampled: part 3" >"$scratch/ci/sampled"
    run tests/summary.py --slowest "$scratch/ci"
    [ "$status" -eq 0 ]
    [[ $output == *"sampled: part 3"* ]]
    [[ $output == *"slow: "*" s check-tcp/tests/common/comm/store/test_net.c"* ]]
    [ "${lines[-2]}" = "flaky: 1 of 1 files" ]
}

@test "a check that fails where no test does has failed, with the end of its log, though a file was flaky" {
    TAP_DIR=$scratch/ci/check-tcp RERUN=later prove false
    TAP_DIR=$scratch/ci.again/check-tcp RERUN=later prove true
    echo 2 >"$scratch/ci/check-tcp.status"
    seq 100 >"$scratch/ci/check-tcp.log"
    run tests/summary.py "$scratch/ci"
    [ "$status" -ne 0 ]
    [ "${lines[0]}" = "failed: make check-tcp ended with status 2" ]
    [ "${lines[1]}" = "    81" ]
    [ "${lines[-1]}" = "1 passed, 1 failed, 1 skipped" ]
}

@test "two flaky files of one check; their second runs have the same random numbers" {
    cat >"$scratch/make" <<END
#!/bin/sh
for word; do case \$word in *=*) export "\$word" ;; esac; done
cd $PWD; CHECK=check-tcp exec tests/run_tests.sh tests/common/comm/store/test_net.c tests/common/base/test_rng.c
END
    chmod +x "$scratch/make"
    program net "echo \$SEED >>'$scratch/seeds'; ! mkdir '$scratch/net' 2>/dev/null"
    program rng "! mkdir '$scratch/rng' 2>/dev/null"
    cd "$scratch"
    export SEED=17
    TAP_DIR=$scratch/ci/check-tcp RERUN=later "$scratch/make"
    cd - >/dev/null
    PATH=$scratch:$PATH tests/again.sh "$scratch/ci"
    run tests/summary.py "$scratch/ci"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-2]}" = "flaky: 2 of 2 files" ]
    [ "$(tr '\n' ' ' <"$scratch/seeds")" = "17 17 " ]
}

# tap STATUS LINE...: a program that prints these lines, run by itself.
tap() {
    local code=$1
    shift
    { echo '#!/bin/sh'; printf "echo '%s'\n" "$@"; echo "exit $code"; } >"$scratch/tests/common/comm/store/test_net"
    chmod +x "$scratch/tests/common/comm/store/test_net"
    run tests/run_tests.sh tests/common/comm/store/test_net.c
    echo "$output"
}

@test "more tests than planned, and tests out of order, are failures" {
    tap 0 1..2 'ok 1 - a' 'ok 2 - b'
    [ "$status" -eq 0 ]
    tap 0 1..2 'ok 1 - a' 'ok 2 - b' 'ok 1 - a' 'ok 2 - b'
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: ran 4 tests, not 2 in order"* ]]
    tap 0 1..2 'ok 1 - a' 'ok whatever'
    [ "$status" -ne 0 ]
}

@test "a second run that skips what has failed does not count" {
    printf '#!/bin/sh\necho 1..2; echo ok 1 - b\nif mkdir %s/been 2>/dev/null; then echo not ok 2 - a; exit 1; else echo "ok 2 - a # skip no network"; fi\n' \
        "$scratch" >"$scratch/tests/common/comm/store/test_net"
    chmod +x "$scratch/tests/common/comm/store/test_net"
    run tests/run_tests.sh tests/common/comm/store/test_net.c
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: 2 - a"* ]]
}

@test "a run that was killed has failed tests that did not run" {
    printf '#!/bin/sh\nkill -9 $$\n' >"$scratch/prove"
    chmod +x "$scratch/prove"
    PATH=$scratch:$PATH prove false
    [ "$status" -ne 0 ]
    [[ $output == *"failed: tests/common/comm/store/test_net.c: broke off after 0 of 0 tests"* ]]
}

@test "ONLY picks one file; what is not there is a line" {
    ONLY=tests/common/comm/store/test_net.c run tests/run_tests.sh tests/common/base/test_rng.c
    [ "$status" -eq 0 ]
    [ "$output" = "tests/run_tests.sh: tests/common/comm/store/test_net.c is not among these 1 tests" ]
    ONLY=tests/nosuch.bats run tests/run_tests.sh tests/common/base/test_rng.c
    [ "$status" -eq 2 ]
    [ "$output" = "tests/run_tests.sh: there is no test tests/nosuch.bats" ]
}

@test "no signal is ignored, though nohup starts the tests" {
    printf '#!/bin/sh\necho 1..1\ntrap "echo ok 1; exit" HUP\nkill -HUP $$\nsleep 1\n' >"$scratch/tests/common/comm/store/test_net"
    chmod +x "$scratch/tests/common/comm/store/test_net"
    run env --ignore-signal=HUP,INT,QUIT tests/run_tests.sh tests/common/comm/store/test_net.c
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "five samples of the sanitizers' files hold every file once" {
    for part in 0 1 2 3 4; do
        SAMPLE=$part tests/sanitize.sh list "a b c d e f g h i j k l"
    done | sort | tr -d '\n' >"$scratch/all"
    [ "$(cat "$scratch/all")" = abcdefghijkl ]
}

@test "no test has a line that cannot fail: '! command', unless it is the last, needs an '|| false'" {
    shopt -s globstar
    awk 'FNR == 1 { negated = "" }
        /^ *(#|$)/ { next }
        negated != "" && !/^ *}$/ { print negated; bad = 1 }
        { negated = /^ +! / && !/\|\|/ ? FILENAME ":" FNR ":" $0 : "" }
        END { exit bad }' tests/**/*.bats tests/**/*.bash
}
