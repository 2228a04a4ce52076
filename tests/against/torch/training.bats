#!/usr/bin/env bats
# Losses at each step, with random settings, beside PyTorch itself.
load helper

@test "every optimizer, with random settings, makes PyTorch's steps" {
    against_torch training.py optimizers
}

@test "1, 2, 3 and 5 ranks, odd batches, a short last one: PyTorch's losses on every rank" {
    against_torch training.py worlds
}

@test "PyTorch's own DDP over gloo has the losses of our ranks" {
    against_torch training.py ddp
}
