#!/usr/bin/env bats
# make compile_commands.json: the commands for editors.

@test "editors learn how each C file of the programs is compiled" {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    MAKEFLAGS='' make -s compile_commands.json
    list=compile_commands.json
    for file in common/nn/plain.c 03_torchrun_env/train.c tools/doctor/attempt.c; do
        [ "$(jq "[.[] | select(.file == \"$file\" and .directory == \"$PWD\")] | length" $list)" -eq 1 ]
    done
    [ "$(jq -r '.[].file' $list | xargs ls | wc -l)" -ge 100 ]
    eval "$(jq -r '.[] | select(.file == "common/nn/plain.c") | .command' $list) -fsyntax-only"
}
