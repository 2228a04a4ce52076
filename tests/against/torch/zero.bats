#!/usr/bin/env bats
# ZeRO beside PyTorch's own, over gloo: the weights of the asides of beyond/ after some steps.
load helper

@test "ZeRO-1 and 2 take the steps of DDP with ZeroRedundancyOptimizer" {
    against_torch zero.py redundancy
}

@test "ZeRO-3 takes the steps of fully_shard" {
    against_torch zero.py fully_shard
}
