#!/usr/bin/env bats
# The train.py of the steps: PyTorch's losses, our lines, and files that either goes on from.
load helper

@test "twins of 01, 02, 03 and 05 give the golden losses, under torchrun and ddprun" {
    against_torch twins.py golden
}

@test "twins of stages a and b have the losses and the lines of ours on every rank" {
    against_torch twins.py stages
}

@test "01 and 05 go on from their twins' files, and the twins from theirs" {
    against_torch twins.py files
}
