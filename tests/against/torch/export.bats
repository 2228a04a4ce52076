#!/usr/bin/env bats
# Models handed on: the folder of tools/export in PyTorch, and PyTorch's files in our tools.
load helper

@test "an export's own load_in_pytorch.py gives our log probabilities within 1e-5" {
    against_torch export.py exported
}

@test "an export of the linear model gives the numbers that its weights say" {
    against_torch export.py linear
}

@test "a file that PyTorch wrote is evaluated as PyTorch does it, class by class" {
    against_torch export.py evaluated
}
