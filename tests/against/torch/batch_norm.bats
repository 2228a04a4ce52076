#!/usr/bin/env bats
# Batch norm beside PyTorch's own: weights and buffers of the asides of beyond/ after some steps.
load helper

@test "with rank 0's buffers for all: DDP over BatchNorm2d" {
    against_torch batch_norm.py broadcast
}

@test "over all ranks: BatchNorm2d in one process with the whole batch" {
    against_torch batch_norm.py whole
}

@test "over all ranks: SyncBatchNorm's forward and backward" {
    against_torch batch_norm.py sync
}
