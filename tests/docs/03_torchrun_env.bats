#!/usr/bin/env bats
# The commands of chapter 03 print what it quotes.
load docs_helper

@test "chapter 03" {
    commands_of docs/03_torchrun_env.md
}
