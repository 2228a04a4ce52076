#!/usr/bin/env bats
# beyond/recompute beside PyTorch's checkpoint_sequential under DDP, over gloo: losses and weights after 20 steps.
load helper

@test "two ranks train as checkpoint_sequential in four segments does, and that as PyTorch's DDP" {
    against_torch recompute.py
}
