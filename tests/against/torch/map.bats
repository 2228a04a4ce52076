#!/usr/bin/env bats
# docs/pytorch_map.md beside the PyTorch that is installed.
load helper

@test "what the dictionary calls PyTorch's is in the installed PyTorch" {
    against_torch map.py names
}

@test "the dictionary's rows for 2.15 say what PyTorch does on two Gloo ranks" {
    against_torch map.py tried
}
