#!/usr/bin/env bats
# make check-labs: files of the library labs, wrong and right ones (library.txt), are judged as they should be.

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120} LAB_OURS=$BATS_FILE_TMPDIR/ours
}

# Each lab has at least 12 wrong files and 4 right ones, and all hints but these are given to one of them: a rank that
# computes without end takes a minute, and the others need files that are right in the harness and wrong in the program.
@test "every lab has enough files, and every hint its file" {
    grep -v '^#' tests/labs/library.txt | grep . >"$BATS_TEST_TMPDIR/files"
    for name in $(cut -d ' ' -f 1 "$BATS_TEST_TMPDIR/files" | sort -u); do
        [ "$(grep "^$name " "$BATS_TEST_TMPDIR/files" | grep -vc '^[a-z0-9]* right ')" -ge 12 ]
        [ "$(grep -c "^$name right " "$BATS_TEST_TMPDIR/files")" -ge 4 ]
        for hint in $(sed -n 's/^hint \([a-z_]*\): .*/\1/p' "teach/lab/$name.txt" teach/lab/every.hints); do
            case $hint in loop | program | files | replicas | unseen) continue ;; esac
            case $hint in crash | outside | not_yours) continue ;; esac # of the ring and the Reducer alone
            grep -q "^$name $hint " "$BATS_TEST_TMPDIR/files" || { echo "$name: no file for $hint" && false; }
        done
    done
}

@test "ring" { tests/labs/try_library.py ring; }
@test "ring, rung 5" { tests/labs/try_library.py ring5; }
@test "reducer" { tests/labs/try_library.py reducer; }
@test "sampler" { tests/labs/try_library.py sampler; }

