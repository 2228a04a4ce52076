#!/usr/bin/env bats
# ZeRO beside PyTorch's own, over gloo: the weights of the asides of beyond/ after some steps.
load helper

@test "ZeRO-1 and 2 take the steps of DDP with ZeroRedundancyOptimizer" {
    against_torch zero.py redundancy
}

@test "parameters that join in mid-training take the steps of ZeroRedundancyOptimizer.add_param_group" {
    against_torch zero.py add_group
}

@test "ZeRO-3 takes the steps of fully_shard" {
    against_torch zero.py fully_shard
}
