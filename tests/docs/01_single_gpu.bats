#!/usr/bin/env bats
# The commands of chapter 01 print what it quotes.
load docs_helper

@test "chapter 01" {
    commands_of docs/01_single_gpu.md
}
