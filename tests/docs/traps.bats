#!/usr/bin/env bats
# The commands of the clinic print what it quotes.
# bats file_tags=slow
load docs_helper

@test "traps" {
    commands_of docs/answers/traps.md
}
