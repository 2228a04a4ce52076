#!/usr/bin/env bats
# The commands of chapter 04 print what it quotes.
load docs_helper

@test "chapter 04" {
    commands_of docs/04_slurm_multinode.md
}
