#!/usr/bin/env bats
# Losses at each step, with random settings, beside PyTorch itself.
load helper

@test "every optimizer, with random settings, makes PyTorch's steps" {
    against_torch training.py optimizers
}

@test "1, 2, 3 and 5 ranks, odd batches, a short last one: PyTorch's losses on every rank" {
    against_torch training.py worlds
}

@test "clipped gradients, schedules and warm-up: PyTorch's losses at each step" {
    against_torch training.py recipes
}

@test "schedules and warm-up: PyTorch's rate at each step of whole runs" {
    against_torch training.py rates
}

@test "PyTorch's own DDP over gloo has the losses of our ranks" {
    against_torch training.py ddp
}
