#!/usr/bin/env bats
# make check-labs: files of lab-snapshot (library.txt). Its runs are killed at random moments, which mostly means waiting,
# so it has a test file of its own, as lab-store has: the files run beside each other.

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120} LAB_OURS=$BATS_FILE_TMPDIR/ours
}

@test "snapshot" { tests/labs/try_library.py snapshot; }
