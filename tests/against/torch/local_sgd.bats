#!/usr/bin/env bats
# Local SGD, DiLoCo and streaming DiLoCo of beyond/local_sgd beside PyTorch, over gloo: the weights after some rounds.
load helper

@test "local SGD averages as PeriodicModelAverager does" {
    against_torch local_sgd.py average
}

@test "DiLoCo's outer optimizer takes the steps of torch.optim.SGD with nesterov" {
    against_torch local_sgd.py diloco
}

@test "streaming DiLoCo: so many optimizers over pieces of the weights, with results that come two steps later" {
    against_torch local_sgd.py streaming
}
