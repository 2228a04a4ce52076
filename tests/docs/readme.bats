#!/usr/bin/env bats
# The commands of the first pages print what these quote.
load docs_helper

@test "README, setup and the glossary" {
    commands_of README.md docs/00_setup.md docs/glossary.md
}

@test "ten minutes" {
    commands_of docs/ten_minutes.md
}

@test "the READMEs of folders" {
    commands_of */README.md beyond/*/README.md extras/*/README.md
}
