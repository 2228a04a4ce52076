#!/usr/bin/env bats
# make check-labs: the other files of library.txt, in a test file of their own, so that two cores share the work.

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120} LAB_OURS=$BATS_FILE_TMPDIR/ours
}

@test "snapshot" { tests/labs/try_library.py snapshot; }
@test "store" { tests/labs/try_library.py store; }
