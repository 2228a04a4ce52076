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
