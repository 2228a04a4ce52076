#!/usr/bin/env bats
# The commands of the answers print what they quote.
# bats file_tags=slow
load docs_helper

@test "answers of chapter 01" {
    commands_of docs/answers/01_*.md
}

@test "answers of chapter 02" {
    commands_of docs/answers/02_*.md
}

@test "answers of chapter 03" {
    commands_of docs/answers/03_*.md
}

@test "answers of chapter 04" {
    commands_of docs/answers/04_*.md
}

@test "answers of chapter 05" {
    commands_of docs/answers/05_*.md
}
