#!/usr/bin/env bats
# All that the instructor's plan has people type in two days (make rehearse); tests/teach/plan.bats runs the 90 minutes.

@test "the whole plan, rehearsed" {
    run teach/plan.py run
    echo "$output"
    echo "${lines[@]: -3}" | sed 's/^/# /' >&3
    [ "$status" -eq 0 ]
}
