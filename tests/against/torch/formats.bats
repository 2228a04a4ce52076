#!/usr/bin/env bats
# Files that PyTorch and NumPy wrote, in our programs.
load helper

@test "what torch.save, numpy.savez and pickle wrote becomes the same model" {
    against_torch formats.py converted
}

@test "a model that PyTorch's distributed checkpoints divided among files is read from their folder" {
    against_torch formats.py divided
}

@test "EMNIST's and QMNIST's files, written by NumPy, give upright images and the right labels" {
    against_torch formats.py relatives
}

@test "torchfrtrace finds nothing in our records of a good run, and says in those of a failed one which rank is missing" {
    against_torch formats.py records
}
