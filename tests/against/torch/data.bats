#!/usr/bin/env bats
# Where training starts from, and how it is tested, beside PyTorch itself.
load helper

@test "200 random samplers deal out DistributedSampler's rows" {
    against_torch data.py samplers
}

@test "any seed gives PyTorch's initial weights, bit for bit" {
    against_torch data.py initial
}

@test "any seed gives PyTorch's random rows, and the digits look as PyTorch enlarges them" {
    against_torch data.py rows
}

@test "loss and accuracy on the test set are PyTorch's, on any number of ranks" {
    against_torch data.py evaluation
}
