#!/usr/bin/env bats
# The commands of the pages about failures print what they quote.
# bats file_tags=slow
load docs_helper

@test "debugging" {
    commands_of docs/debugging.md
}

@test "failures" {
    commands_of docs/failures.md
}
