#!/usr/bin/env bats
# The Reducer beside PyTorch's DDP, over gloo: tied and frozen parameters, and the hooks of beyond/comm_hooks.
load helper

@test "tied and frozen parameters take the steps of DDP" {
    against_torch reducer.py uses
}

@test "bf16_hook returns what bf16_compress_hook returns, in as many bytes" {
    against_torch reducer.py bf16
}

@test "power_sgd returns what powerSGD_hook returns in each step, in as many bytes" {
    against_torch reducer.py power
}
