# The launcher: where the output of the ranks goes.

bats_require_minimum_version 1.5.0
load ddprun_helper

@test "-r, by rank: to files" {
    run -0 --separate-stderr ddprun --nproc-per-node 2 --rdzv-id id --log-dir "$OUT/l" -r 0:1,1:2 \
        sh -c 'echo out $RANK; echo err $RANK >&2'
    [ "$output" = "out 1" ]
    [ "$stderr" = "err 0" ]
    run -0 sh -c 'cd $OUT/l/id_????????/attempt_0 && grep -r . | sort'
    [ "$output" = "0/stdout.log:out 0
1/stderr.log:err 1" ]
}

@test "the console: --local-ranks-filter" {
    [ "$(ddprun --nproc-per-node 3 --local-ranks-filter 0,2 sh -c 'echo $RANK' | sort)" = "0
2" ]
}

@test "without --log-dir, the log folder is named and stays" {
    run -0 ddprun -r 1 echo hi
    [[ $output == "ddprun: logs are in $TMPDIR/"* ]]
    [ "$(cat "${output#*are in }"/attempt_0/0/stdout.log)" = hi ]
    rm -r "${output#*are in }"
}

@test "a rank that leaves its folder is still heard, and an empty TMPDIR is none" {
    mkdir "$OUT/here"
    cd "$OUT/here"
    DDPRUN=$OLDPWD/03_torchrun_env/ddprun
    run -1 --separate-stderr ddprun --log-dir l sh -c \
        'cd /; echo "{\"message\": \"last words\"}" > "$TORCHELASTIC_ERROR_FILE"; exit 1'
    [[ $stderr == *"message : last words"* ]]
    [ -s "$(echo l/*/attempt_0/0/error.json)" ]
    TMPDIR='' run -0 ddprun sh -c 'echo "$TORCHELASTIC_ERROR_FILE"'
    [[ $output == "$(realpath /tmp)"/* ]]
}

# killed ARGUMENTS...: a launcher that its rank kills; its output goes nowhere.
killed() {
    03_torchrun_env/ddprun "$@" sh -c 'echo hi; kill -KILL $PPID; sleep 1000' > /dev/null 2>&1 3>&- || [ $? -eq 137 ]
}

only_logs_are_left() {
    [ "$(cd "$TMPDIR" && find . -mindepth 2 | sed 's/_......../_X/' | sort)" = "./logs_X/attempt_0
./logs_X/attempt_0/0
./logs_X/attempt_0/0/stdout.log" ] && [ "$(ls "$TMPDIR" | wc -l)" -eq 1 ]
}

@test "a launcher that is killed leaves logs, but no empty folders" {
    killed --rdzv-id logs -r 0:1 --nproc-per-node 2
    killed --rdzv-id gone --nproc-per-node 2
    await only_logs_are_left
    rm -r "$TMPDIR"/logs_*
}
