#!/usr/bin/env bats
# make check-labs: files of lab-reconfigure (library.txt).

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120} LAB_OURS=$BATS_FILE_TMPDIR/ours
}

@test "reconfigure" { tests/labs/try_library.py reconfigure; }
