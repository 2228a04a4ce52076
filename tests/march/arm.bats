#!/usr/bin/env bats
# Everything for ARM, on an emulator.

load arm_helper

@test "ARM (armv8-a, emulated): no warning; the kernels; PyTorch's losses in steps 01 to 03" {
    EMULATOR=$emulator tests/march/compiler.sh aarch64-linux-gnu-gcc armv8-a
    # The emulator knows no subreaper: what a rank has left behind ends all the same, and at once.
    # shellcheck disable=SC2086 # several words
    run timeout 20 $emulator build/march/tree-aarch64-linux-gnu-gcc/03_torchrun_env/ddprun --standalone --nproc-per-node 1 \
        sh -c 'sleep 1000 & echo $!; exit 3'
    [ "$status" -eq 3 ]
    [[ ${lines[0]} =~ ^[0-9]+$ ]]
    ! kill -0 "${lines[0]}"
}
