#!/usr/bin/env bats
# The commands of chapter 05 print what it quotes.
load docs_helper

@test "chapter 05" {
    commands_of docs/05_fault_tolerance.md
}
