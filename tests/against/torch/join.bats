#!/usr/bin/env bats
# Uneven inputs beside PyTorch's Join: the weights of an aside of beyond/ after every step.
load helper

@test "ranks that run out of rows join as in DDP's join()" {
    against_torch join.py
}
