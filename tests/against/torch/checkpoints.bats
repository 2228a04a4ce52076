#!/usr/bin/env bats
# Our files in PyTorch, and PyTorch's in our programs.
load helper

@test "PyTorch loads our checkpoint: the same accuracy, the same probabilities" {
    against_torch checkpoints.py loads
}

@test "weights that PyTorch saved train on with us as they do there" {
    against_torch checkpoints.py init_from
}

@test "PyTorch's optimizers go on from the state we saved" {
    against_torch checkpoints.py resume_in_torch
}

@test "we go on from the state of PyTorch's optimizers" {
    against_torch checkpoints.py resume_in_ours
}
