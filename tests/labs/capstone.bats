#!/usr/bin/env bats
# make check-labs: files of the capstone, wrong and right ones (capstone.txt), are judged as they should be.

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120} LAB_OURS=$BATS_FILE_TMPDIR/ours
}

@test "there are 12 wrong files and more, and a wrong one for each hint" {
    grep -v '^#' tests/labs/capstone.txt | grep . >"$BATS_TEST_TMPDIR/files"
    [ "$(grep -vc ' right ' "$BATS_TEST_TMPDIR/files")" -ge 12 ]
    [ "$(grep -c ' right ' "$BATS_TEST_TMPDIR/files")" -ge 3 ]
    for hint in $(sed -n 's/^hint \([a-z_]*\): .*/\1/p' teach/lab/capstone.txt); do
        case $hint in labels_test | untouched) continue ;; esac # their twins are tried
        grep -q "^[0-9a-z]* $hint " "$BATS_TEST_TMPDIR/files" || { echo "no file for $hint" && false; }
    done
}

@test "the data set and the model" { tests/labs/try_capstone.py capstone; }
@test "01 and 02" { tests/labs/try_capstone.py 01 02; }
@test "03 to 05" { tests/labs/try_capstone.py 03 04 05; }
