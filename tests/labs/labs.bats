#!/usr/bin/env bats
# make check-labs: every wrong program of programs.txt is rejected with the hint that names its mistake, every right one
# is accepted. (4 minutes)

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120} LAB_OURS=$BATS_FILE_TMPDIR/ours
}

@test "there are 40 wrong programs and more, and two right ones of each lab" {
    grep -v '^#' tests/labs/programs.txt | grep . >"$BATS_TEST_TMPDIR/programs"
    [ "$(grep -vc ' right ' "$BATS_TEST_TMPDIR/programs")" -ge 40 ]
    for step in 02a 02b 02c 02 03 04 05; do
        [ "$(grep -c "^$step right " "$BATS_TEST_TMPDIR/programs")" -ge 2 ]
    done
}

@test "02a" { tests/labs/try_programs.py 02a; }
@test "02b" { tests/labs/try_programs.py 02b; }
@test "02c" { tests/labs/try_programs.py 02c; }
@test "02" { tests/labs/try_programs.py 02; }
@test "03" { tests/labs/try_programs.py 03; }
@test "04" { tests/labs/try_programs.py 04; }
@test "05" { tests/labs/try_programs.py 05; }

@test "a judge that leaves out a check is noticed" {
    cp -r teach/lab "$BATS_TEST_TMPDIR/lab"
    export LAB_JUDGE=$BATS_TEST_TMPDIR/lab/judge.py
    tests/labs/try_programs.py 02c:set_epoch # the copy judges as it should
    while read -r file check program; do
        cp teach/lab/*.py "$BATS_TEST_TMPDIR/lab"
        sed -i "s/^\( *\)def $check(.*/&\n\1    'left out'\n\1    return/" "$BATS_TEST_TMPDIR/lab/$file"
        run tests/labs/try_programs.py "$program" </dev/null
        echo "$check: $output"
        [ "$status" -eq 1 ]
        [[ $output == *"WRONG  "*" programs, 1 judged wrongly" ]]
    done <<'END'
checks.py check_end 02c:order
checks.py check_device 03:device
checks.py check_own_model 02a:own_weights
checks.py check_group 02b:broadcast
checks.py check_rows 02c:shuffle
checks.py check_steps 02b:partial
checks.py check_values 02b:mean
checks.py check_evaluation 02c:evaluate_share
checks.py check_saves 03:save_rank
checks.py check_disks 04:scratch_once
checks.py check_output 02c:numbers
judge.py check_killed 02a:killed_left
judge.py check_stopped 05:stop_save
judge.py check_watched 05:watch
END
}

@test "every mistake has a hint, and every hint its mistake" {
    sed -n 's/^[0-9a-c,]* *\(all \)*\([a-z_]*\): .*/\2/p; s/^all \([a-z_]*\): .*/\1/p' teach/lab/hints.txt | sort -u >"$BATS_TEST_TMPDIR/hints"
    grep -v '^#' tests/labs/programs.txt | awk 'NF && $2 != "right" { print $2 }' | sort -u >"$BATS_TEST_TMPDIR/tried"
    while read -r name; do
        grep -q "\"$name\"" teach/lab/checks.py teach/lab/judge.py || { echo "no check finds $name" && false; }
    done <"$BATS_TEST_TMPDIR/hints"
    while read -r name; do # what judge_zero.py names more exactly than the run in which it shows
        grep -q "^hint $name: " teach/lab/zero*.txt || { echo "zero*.txt has no hint for $name" && false; }
    done < <(sed -n 's/.*yield "\([a-z_]*\)".*/\1/p' teach/lab/judge_zero.py)
    grep -ohE 'yield "[a-z_]+"' teach/lab/judge.py teach/lab/checks.py | sed 's/.*"\(.*\)"/\1/' | sort -u >"$BATS_TEST_TMPDIR/yielded"
    comm -23 "$BATS_TEST_TMPDIR/yielded" "$BATS_TEST_TMPDIR/hints" >"$BATS_TEST_TMPDIR/without"
    comm -23 "$BATS_TEST_TMPDIR/tried" "$BATS_TEST_TMPDIR/hints" >>"$BATS_TEST_TMPDIR/without"
    cat "$BATS_TEST_TMPDIR/without"
    [ ! -s "$BATS_TEST_TMPDIR/without" ]
}
