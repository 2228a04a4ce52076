#!/usr/bin/env bats
# The commands of the pages beyond DDP print what they quote.
# bats file_tags=slow
load docs_helper

@test "beyond DDP" {
    commands_of docs/beyond_ddp.md
}

@test "ZeRO and FSDP" {
    commands_of docs/zero.md
}

@test "beyond gradients" {
    commands_of docs/beyond_gradients.md
}

@test "all documents that no other file of this folder names" {
    tools/docs.py list >"$BATS_TEST_TMPDIR/all"
    # shellcheck disable=SC2046,SC2013 # patterns, and several words
    ls $(sed -n 's/^    commands_of //p' tests/docs/*.bats | grep -v '^\$') >"$BATS_TEST_TMPDIR/named"
    commands_of $(grep -vxFf "$BATS_TEST_TMPDIR/named" "$BATS_TEST_TMPDIR/all")
}
