#!/usr/bin/env bats
# How tests are run and counted: each test that fails, hangs, breaks off or is skipped is named; a file that
# passes when it is run again alone is flaky; the status is 0 only if nothing failed.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    scratch=$BATS_TEST_TMPDIR
    export TAP_DIR=$scratch/ci/check-tcp BUILD=$scratch
    unset ONLY RERUN CHECK TEST_TIMEOUT JOBS SAMPLE SLOW
    net=tests/common/comm/store/test_net.c
    mkdir -p "$scratch/${net%/*}"
}

# program COMMAND: test_net has two tests, as cmocka prints them: this command, and one that is skipped.
program() {
    cat >"$scratch/${net%.c}" <<END
#!/bin/sh
echo 1..2
if $1; then echo ok 1 - watched; failed=0; else echo not ok 1 - watched; echo "# its last words"; failed=1; fi
echo "not ok 2 # SKIP left_out"
exit \$failed
END
    chmod +x "$scratch/${net%.c}"
}

# prove COMMAND [STATUS]: runs these two tests, and expects this status.
prove() {
    program "$1"
    run tests/run_tests.sh $net
    echo "$output"
    [ "$status" -eq "${2:-0}" ]
}

# says LINE: LINE is the run's last line.
says() {
    [ "${lines[-1]}" = "$1" ]
}

@test "what passes is counted, what is skipped named" {
    prove true
    [[ $output == *"skipped: $net: 2 # SKIP left_out"* && $output != *"== once more"* ]]
    says "1 passed, 0 failed, 1 skipped"
}

@test "a file that fails twice has failed: the summary shows its last words and the command that repeats it" {
    prove "! echo more >>'$scratch/times'" 1
    [ "$(wc -l <"$scratch/times")" -eq 2 ]
    [[ $output == *"failed: $net: 1 - watched"*"# its last words"*"again: make test ONLY=$net SEED="* ]]
    says "0 passed, 1 failed, 1 skipped"
}

@test "a file that fails, and passes alone, is flaky; its second run has the same random numbers" {
    prove "echo \$SEED >>'$scratch/seeds'; ! mkdir '$scratch/been' 2>/dev/null"
    [[ $output == *"flaky: $net: 1 - watched: failed ("*" s), passed alone ("*" s)"* ]]
    [ "${lines[-2]}" = "flaky: 1 of 1 files" ]
    [ "$(sort -u "$scratch/seeds" | wc -l)" -eq 1 ]
    says "1 passed, 0 failed, 1 skipped"
}

@test "a file that hangs is ended; one that breaks off, is killed, or ends with another status has failed" {
    NUMBER=$((10000 + $$)) # used nowhere else
    TEST_TIMEOUT=2 RERUN=never prove "sleep $NUMBER" 1
    [[ $output == *"failed: $net: timed out after "*" s, 0 of 2 tests"* ]]
    ! pgrep -f "^sleep $NUMBER$" || false
    RERUN=never prove 'kill -9 $$' 1 # of the program's shell
    [[ $output == *"failed: $net: was killed after"*"0 of 2 tests"* ]]
    RERUN=never prove 'exit 0' 1
    [[ $output == *"failed: $net: broke off after 0 of 2 tests"* ]]
    RERUN=never prove '{ trap "exit 23" EXIT; echo "what it says" >&2; }' 1
    [[ $output == *"failed: $net: ended with status 23, though its tests passed"*"what it says"* ]]
}

@test "more tests than planned, and tests out of order, are failures" {
    printf '#!/bin/sh\nprintf "1..2\\nok 1 - a\\nok 2 - b\\nok 1 - a\\n"\n' >"$scratch/${net%.c}"
    chmod +x "$scratch/${net%.c}"
    RERUN=never run tests/run_tests.sh $net
    [[ $status -ne 0 && $output == *"failed: $net: ran 3 tests, not 2 in order"* ]]
}

@test "RERUN=never: a failure counts, and .ci/run does not run it again either" {
    RERUN=never prove "! mkdir '$scratch/been' 2>/dev/null" 1
    tests/again.sh "$scratch/ci"
    [ ! -e "$scratch/ci.again" ]
}

@test "RERUN=later: .ci/run runs it again; a check that fails where no test does has failed" {
    CHECK=check-tcp RERUN=later prove "! mkdir '$scratch/been' 2>/dev/null"
    printf '#!/bin/sh\ncd %s; CHECK=check-tcp exec tests/run_tests.sh %s\n' "$PWD" $net >"$scratch/make"
    chmod +x "$scratch/make"
    PATH=$scratch:$PATH tests/again.sh "$scratch/ci"
    echo "sampled: part 3" >"$scratch/ci/sampled"
    run tests/summary.py --slowest "$scratch/ci"
    [[ $status -eq 0 && $output == *"sampled: part 3"*"slow: "*" s check-tcp/$net"*"flaky: 1 of 1 files"* ]]
    echo 2 >"$scratch/ci/check-tcp.status"
    seq 100 >"$scratch/ci/check-tcp.log"
    run tests/summary.py "$scratch/ci"
    [[ $status -ne 0 && ${lines[0]} == "failed: make check-tcp ended with status 2" && ${lines[-1]} == "1 passed, 1 failed, 1 skipped" ]]
}

@test "of more than five files that fail none is run again" {
    mkdir -p "$scratch/ci/many"
    for i in 1 2 3 4 5 6; do printf '1..1\nnot ok 1 - x\n# took 1 s, status 1, 0 s of processors, again: x\n' >"$scratch/ci/many/$i.tap"; done
    [ -z "$(tests/summary.py --failed "$scratch/ci")" ]
    rm "$scratch/ci/many/6.tap"
    [ "$(tests/summary.py --failed "$scratch/ci" | grep -c many/)" -eq 5 ]
}

# took TEST SECONDS [CHECK]: a file that passed in so many seconds of processors.
took() {
    mkdir -p "$scratch/ci/$(dirname "$1")"
    printf '1..1\nok 1 - x\n# took 1 s, status 0, %d s of processors, again: make %s ONLY=x\n' "$2" "${3:-test}" >"$scratch/ci/$1.tap"
}

@test "a file that takes more of the processors than its budget is named, and does not fail" {
    read -r seconds exception < <(grep '^[0-9]' tests/budget.txt)
    took $net 6
    took tests/house/five.bats 5
    took tests/house/other.bats 60 check-faults
    took "$exception" "$seconds"
    run tests/summary.py "$scratch/ci"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep '^over budget' <<<"$output")" = "over budget: $net: 6 s of processors, and 5 are its budget (tests/budget.txt)" ]
    [[ $output == *"$((71 + seconds)) s of processors"* ]]
    took "$exception" $((seconds + 1))
    run tests/summary.py "$scratch/ci"
    [ "$(grep -c '^over budget' <<<"$output")" -eq 2 ]
    SLOW=all run tests/summary.py "$scratch/ci" # more tests than those of the budget
    [[ $output != *"over budget"* ]]
}

@test "a file that takes ten times its budget fails, twenty times where all others take twice theirs" {
    for slower in 1 2; do
        while read -r seconds test; do
            took "$test" $((seconds * slower))
        done < <(grep '^[0-9]' tests/budget.txt)
        took $net $((50 * slower))
        tests/summary.py "$scratch/ci"
        took $net $((50 * slower + 1))
        run tests/summary.py "$scratch/ci"
        echo "$output"
        [ "$status" -eq 1 ]
        [ "$(grep -c '^failed: over budget: ' <<<"$output")" -eq 1 ]
        [[ $output == *"failed: over budget: $net: $((50 * slower + 1)) s of processors, and 5 are its budget (tests/budget.txt)"* ]]
    done
    rm -r "$scratch/ci" && took $net 1000 # alone: how fast this machine is, nothing tells
    tests/summary.py "$scratch/ci"
}

@test "each exception in tests/budget.txt is a test file that is there, once, and needs more than the others may" {
    grep -v '^#' tests/budget.txt >"$scratch/list"
    LC_ALL=C sort -c -k 2 "$scratch/list" && [ -z "$(cut -d ' ' -f 2 "$scratch/list" | uniq -d)" ]
    awk 'NF != 2 || $1 <= 5 || system("[ -f " $2 " ]") != 0 { print; bad = 1 } END { exit bad || NR == 0 }' "$scratch/list"
}

@test "a bats test that fails: its command, what was expected and what came, in at most 30 lines" {
    printf '%s\n' '@test "counts" {' '    run seq 100' '    echo "$output"' '    [ "$status" -eq 0 ]' '    [ "${lines[-1]}" = 99 ]' '}' >"$scratch/fails.bats"
    mkdir -p "$scratch/ci/test"
    { env -i PATH="${PATH#"$BATS_LIBEXEC:"}" bats --tap "$scratch/fails.bats" || true; } >"$scratch/ci/test/fails.bats.tap"
    echo "# took 1 s, status 1, 0 s of processors, again: make test" >>"$scratch/ci/test/fails.bats.tap"
    run tests/summary.py "$scratch/ci"
    echo "$output"
    [[ $output == *"failed: "*": 1 counts"*"command:  run seq 100"*'expected: [ "${lines[-1]}" = 99 ]'*"came:"*"    100"* ]]
    [ "$(sed -n '/^failed/,/again:/p' <<<"$output" | wc -l)" -le 30 ]
}

@test "ONLY picks one file, by its path or its name; what is not there is a line that says what is near" {
    program true
    for name in $net net test_net.c; do
        ONLY=$name run tests/run_tests.sh tests/common/base/test_rng.c $net
        [[ $status -eq 0 && ${lines[-1]} == "1 passed, 0 failed, 1 skipped" ]]
    done
    ONLY=rgn run tests/run_tests.sh tests/common/base/test_rng.c $net
    [[ $status -eq 2 && $output == "tests/run_tests.sh: there is no test rgn; near it: tests/common/base/test_rng.c" ]]
    CHECK=check-tcp ONLY=rng run tests/run_tests.sh $net
    [[ $status -eq 0 && $output == "no test: rng is not among these 1" ]]
}

@test "what is tagged as slow runs with SLOW=only and SLOW=all" {
    mkdir -p "$scratch/tests/house"
    cp -r tests/run_tests.sh tests/tap.sh tests/summary.py tests/budget.txt tests/again.sh "$scratch/tests" && cp -r tools "$scratch" && cd "$scratch"
    printf '# bats test_tags=slow\n@test "long" { true; }\n@test "short" { true; }\n' >tests/house/one.bats
    printf '# bats file_tags=slow\n@test "long, too" { true; }\n' >tests/house/two.bats
    for slow in no:1 only:2 all:3; do
        run env -i PATH="${PATH#"$BATS_LIBEXEC:"}" SLOW="${slow%:*}" tests/run_tests.sh tests/house/one.bats tests/house/two.bats
        echo "$output"
        says "${slow#*:} passed, 0 failed, 0 skipped"
    done
}

@test "five samples hold every file once, and three" {
    for parts in 5 3; do
        for part in $(seq 0 $((parts - 1))); do SAMPLES=$parts SAMPLE=$part tests/sample.sh a b c d e f g h i j k l; done >"$scratch/all"
        [ "$(tr ' ' '\n' <"$scratch/all" | sort | tr -d '\n')" = abcdefghijkl ]
    done
}

@test "each check is in some part of .ci/run, but those by hand" {
    sed -n "s/^\(thirds\|longest\)='\(.*\)'/\2/p" .ci/run | tr -s ' :' '\n' >"$scratch/checks"
    printf '%s\n' bare gpu machines mutants reconfigure >>"$scratch/checks"
    diff <(sort "$scratch/checks") <(grep -oh '^check-[a-z]*:' tests/rules.mk tests/fuzz/rules.mk | sed 's/check-//; s/://' | sort)
}

@test "no signal is ignored, though nohup starts the tests" {
    program '{ trap "echo ok 1 - watched; echo ok 2 - b; exit" HUP; kill -HUP $$; sleep 1; }'
    run env --ignore-signal=HUP,INT,QUIT tests/run_tests.sh $net
    [ "$status" -eq 0 ]
}

@test "no test has a line that cannot fail: '! command', unless it is the last, needs an '|| false'" {
    shopt -s globstar
    awk 'FNR == 1 { negated = "" }
        /^ *(#|$)/ { next }
        negated != "" && !/^ *}$/ { print negated; bad = 1 }
        { negated = /^ +! / && !/\|\|/ ? FILENAME ":" FNR ":" $0 : "" }
        END { exit bad }' tests/**/*.bats tests/**/*.bash
}

@test "a check in a teardown is joined with what follows: bats looks at the status of the last command alone" {
    grep -rl '^teardown' tests | xargs awk '/^teardown/ { inside = 1 } /^}/ { inside = 0; check = "" }
        inside && check { print check; bad = 1 } { check = inside && /^    \[.*\]$/ ? FILENAME ": " $0 : "" } END { exit bad }'
}
