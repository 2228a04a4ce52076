#!/usr/bin/env bats
# The commands of chapter 02 print what it quotes.
load docs_helper

@test "chapter 02" {
    commands_of docs/02_multi_gpu_spawn.md
}
