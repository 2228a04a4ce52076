# The launcher: its folders, where the ranks write their errors.

bats_require_minimum_version 1.5.0
load ddprun_helper

@test "a rank that leaves its folder is still heard, and an empty TMPDIR is none" {
    mkdir "$OUT/here"
    cd "$OUT/here"
    DDPRUN=$OLDPWD/03_torchrun_env/ddprun
    run -1 --separate-stderr ddprun --log-dir l sh -c \
        'cd /; echo "{\"message\": \"last words\"}" > "$TORCHELASTIC_ERROR_FILE"; exit 1'
    [[ $(cause <<< "$stderr") == *": exit status 1: last words" ]]
    [ -s "$(echo l/*/attempt_0/0/error.json)" ]
    TMPDIR='' run -0 ddprun sh -c 'echo "$TORCHELASTIC_ERROR_FILE"'
    [[ $output == "$(realpath /tmp)"/* ]]
}

# killed ARGUMENTS...: a launcher that its rank kills; its output goes nowhere.
killed() {
    03_torchrun_env/ddprun "$@" sh -c 'echo hi; kill -KILL $PPID; sleep 1000' > /dev/null 2>&1 3>&- || [ $? -eq 137 ]
}

@test "a launcher that is killed leaves no empty folders" {
    killed --rdzv-id gone --nproc-per-node 2
    await swept
}
