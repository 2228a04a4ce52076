#!/usr/bin/env bats
# beyond/tensor_parallel beside PyTorch's parallelize_module, over gloo: losses and weights after 20 steps.
load helper

@test "two ranks, and two replicas of two, train as ColwiseParallel and RowwiseParallel do" {
    against_torch tensor_parallel.py
}
