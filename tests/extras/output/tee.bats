# ddprun --redirects and --tee: output of the ranks in files and, with a prefix, on the console.

bats_require_minimum_version 1.5.0
load ../../steps/ddprun_helper

@test "-r and -t, by rank: to files, to both" {
    run -0 --separate-stderr ddprun --nproc-per-node 2 --rdzv-id id --log-dir "$OUT/l" -r 0:1,1:2 -t 1:1 \
        sh -c 'echo out $RANK; echo err $RANK >&2'
    [ "$output" = "[default1]:out 1" ]
    [ "$stderr" = "err 0" ]
    run -0 sh -c 'cd $OUT/l/id_????????/attempt_0 && grep -r . | sort'
    [ "$output" = "0/stdout.log:out 0
1/stderr.log:err 1
1/stdout.log:out 1" ]
}

@test "--duplicate-stdout-filters and -stderr-filters: chosen lines of all ranks, in one file" {
    PET_DUPLICATE_STDERR_FILTERS="rr 1," run -0 ddprun --nproc-per-node 2 --log-dir "$OUT/l" -t 3 \
        --duplicate_stdout_filters 'apple,or,,ange' \
        sh -c 'echo "an apple $RANK"; echo "or,ange"; echo "or ange"; echo "[default]"; echo "err $RANK" >&2'
    [ "$(sort "$OUT"/l/*/attempt_0/filtered_stdout.log)" = "[default0]:an apple 0
[default0]:or,ange
[default1]:an apple 1
[default1]:or,ange" ]
    [ "$(cat "$OUT"/l/*/attempt_0/filtered_stderr.log)" = "[default1]:err 1" ]
    run -0 ddprun --nproc-per-node 2 --log-dir "$OUT/m" -t 0:1 --duplicate-stdout-filters a sh -c 'echo apple'
    [ "$(cat "$OUT"/m/*/attempt_0/filtered_stdout.log)" = "[default0]:apple" ]
}

@test "the console: --log-line-prefix-template" {
    run -0 ddprun --nproc-per-node 2 --log-dir "$OUT/l" -t 3 --local-ranks-filter=1 --role r \
        --log-line-prefix-template '${role_name} ${rank} ${local_rank} ${hostname} ${x}> ' echo hi
    [ "$output" = "r 1 1 $(uname -n) \${x}> hi" ]
    [ "$(cat "$OUT"/l/*/attempt_0/0/stdout.log)" = hi ]
}

@test "tee: whole lines, half a line of a rank that is killed, endless lines in pieces" {
    run -137 --separate-stderr ddprun --log-dir "$OUT/l" --tee 1 sh -c 'echo one; printf two; kill -9 $$'
    [ "$output" = "[default0]:one
[default0]:two" ]
    run -0 ddprun --nproc-per-node 2 --log-dir "$OUT/m" -t 1 sh -c \
        'head -c 200000 /dev/zero | tr "\0" x; echo; seq 20000'
    for rank in 0 1; do
        diff <(seq 20000) <(echo "$output" | sed -n "s/^\[default$rank\]://p" | grep -v x)
        [ "$(echo "$output" | grep "^\[default$rank\]:x" | tr -cd x | wc -c)" = 200000 ]
        [ "$(wc -c < "$(echo "$OUT"/m/*/attempt_0/$rank/stdout.log)")" = "$((200001 + $(seq 20000 | wc -c)))" ]
    done
}

@test "tee: the last words of a rank, however many its pipe holds" {
    lines() { seq 100000 180000; } # half a MiB
    export -f lines
    ddprun --log-dir "$OUT/l" -t 1 bash -c 'python3 -c "import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)"
        echo $$ > "$OUT/rank"; lines' | {
        await [ -s "$OUT/rank" ] # no process reads until it has ended
        await [ ! -e "/proc/$(cat "$OUT/rank")" ]
        cat > "$OUT/console"
    }
    cmp <(lines) <(sed "s/.*://" "$OUT/console")
    cmp <(lines) "$OUT"/l/*/attempt_0/0/stdout.log
}

@test "tee does not wait for strangers who keep a stream open" {
    SECONDS=0
    run -0 ddprun --log-dir "$OUT/l" -t 1 sh -c 'echo hi
        setsid sh -c "echo \$\$ > $OUT/stranger; exec sleep 1000" 2> /dev/null 3>&- &
        until [ -s "$OUT/stranger" ]; do sleep 0.02; done'
    kill "$(cat "$OUT/stranger")"
    [ "$output" = "[default0]:hi" ]
    [ "$SECONDS" -le 100 ] # of the stranger's 1,000
}

@test "a console that is gone does not end the job" {
    ddprun --log-dir "$OUT/l" -t 1 sh -c 'seq 100000; touch $OUT/end' 2> "$OUT/err" | head -n 1
    [ -e "$OUT/end" ]
    [ ! -s "$OUT/err" ]
    [ "$(tail -n 1 "$OUT"/l/*/attempt_0/0/stdout.log)" = 100000 ]
}

@test "flags that nobody can follow: one line, and status 2; the beginning of a name will do" {
    usage_errors <<'END'
stdout --redirects 4 true
stdout -t 1:1 true
stdout -t 0:1; true
must_not_be_empty --tee= true
local_ranks --local-ranks-filter 1 true
local_ranks --local-ranks-filter 0, true
must_not_be_empty --local-ranks-filter= true
END
    ddprun --redirect=3 --log-d "$OUT/logs" sh -c 'echo $WORLD_SIZE'
    [ "$(cat "$OUT"/logs/*/attempt_0/0/stdout.log)" = 1 ]
}

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
    await only_logs_are_left
    rm -r "$TMPDIR"/logs_*
}
