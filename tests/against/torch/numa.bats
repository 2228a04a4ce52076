#!/usr/bin/env bats
# ddprun --numa-binding beside torchrun's.
load helper

@test "the modes of --numa-binding choose the cores that torchrun chooses, on machines that are drawn" {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "extras/watch is not in this build"
    against_torch numa.py
}
