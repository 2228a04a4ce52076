#!/usr/bin/env bats
# make check-labs: each trap shows its symptom, and right and wrong fixes and answers are distinguished. (6 minutes)

setup() {
    export LAB_SECONDS=${LAB_SECONDS:-120}
}

@test "every trap" {
    tests/labs/try_traps.py
}

