#!/usr/bin/env bats
# The twins of the traps (teach/trap_twin.py): PyTorch shows the same symptoms, and not when they are fixed.
load helper

@test "21: means over different numbers of rows, averaged by DDP" {
    against_torch traps.py 21
}

@test "22: one rank leaves the loop, and the others wait" {
    against_torch traps.py 22
}

@test "23: a parameter is marked ready twice" {
    against_torch traps.py 23
}

@test "23: two backward passes end without an error, and the ranks' gradients differ" {
    against_torch traps.py passes
}

@test "24: a forward pass moves the running averages" {
    against_torch traps.py 24
}

@test "25: a checkpoint and new tensors go to GPU 0" {
    against_torch traps.py 25
}
