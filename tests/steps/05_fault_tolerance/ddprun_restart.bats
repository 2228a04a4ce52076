# The launcher of step 05 with fixed nodes: the group is restarted, up to a limit.

bats_require_minimum_version 1.5.0
load ../ddprun_helper

DDPRUN=05_fault_tolerance/ddprun

# Ranks that record their identity, in a file for each attempt.
note='echo "$RANK/$WORLD_SIZE $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS" >> $OUT/attempt_$TORCHELASTIC_RESTART_COUNT;'

# two_nodes ARGUMENTS...: two ranks on node 0, one on node 1; status_N, and output in $OUT/node_N.
two_nodes() {
    local port
    port=$(free_port)
    (umask 077 && head -c 32 /dev/urandom >"$OUT/secret")
    ! has_secrets || export DDP_SECRET_FILE=${DDP_SECRET_FILE-$OUT/secret} # the launchers say nothing of it then
    ddprun --nnodes 2 --node-rank 1 --master-port "$port" "$@" > "$OUT/node_1" 2>&1 3>&- &
    status_0=0 status_1=0
    ddprun --nnodes 2 --node-rank 0 --master-port "$port" --nproc-per-node 2 "$@" > "$OUT/node_0" 2>&1 ||
        status_0=$?
    wait $! || status_1=$?
    has_secrets || sed -i '/^ddprun: this job has no secret: /d' "$OUT/node_0"
}

@test "whichever rank is killed, all start again" {
    for victim in 0 1 2; do
        rm -f "$OUT"/attempt_*
        run -0 ddprun --nproc-per-node 3 --max-restarts 1 sh -c "$note"'
            [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
            [ $RANK = '$victim' ] && kill -KILL $$; exec sleep 100'
        [ "$(sort "$OUT/attempt_1")" = "0/3 1/1
1/3 1/1
2/3 1/1" ]
        [ ! -e "$OUT/attempt_2" ]
        [[ $output == "ddprun: attempt 0: rank $victim on node 0 ($(uname -n)): killed by SIGKILL; restarting the group" ]]
    done
}

@test "restarts used up: the last attempt's status and cause, and the history" {
    run -5 ddprun --nproc-per-node 2 --max-restarts 2 sh -c '
        [ $RANK = 0 ] && exec sleep 100; exit $((3 + TORCHELASTIC_RESTART_COUNT))'
    [[ $(cause <<< "$output") == "rank 1 on node 0 "*": exit status 5" && $output == *"Earlier attempts:"* ]]
    [[ $output == *"  attempt 0: rank 1 on node 0 ($(uname -n)): exit status 3
  attempt 1: rank 1 on node 0 ($(uname -n)): exit status 4"* ]]
}

@test "two nodes: both start again; used up, both end with one status and one cause" {
    SECONDS=0
    two_nodes --max-restarts 2 --shutdown-timeout 300 sh -c "$note"'
        [ $RANK = 1 ] && exit 0; [ $RANK = 0 ] && exec sleep 1000
        until [ "$(wc -l < "$OUT/attempt_$TORCHELASTIC_RESTART_COUNT")" -eq 3 ]; do sleep 0.02; done; exit 7'
    [ "$status_0 $status_1" = "7 7" ]
    [ "$SECONDS" -le 100 ] # and no process has waited for --shutdown-timeout
    for attempt in 0 1 2; do
        [ "$(sort "$OUT/attempt_$attempt")" = "0/3 $attempt/2
1/3 $attempt/2
2/3 $attempt/2" ]
    done
    [ ! -e "$OUT/attempt_3" ]
    for node in 0 1; do
        cause "$OUT/node_$node" > "$OUT/cause_$node"
        [ "$(grep -c "attempt [01]: rank 2 on node 1 .*: exit status 7" "$OUT/node_$node")" = 4 ]
    done
    grep -q "^rank 2 on node 1 .*: exit status 7$" "$OUT/cause_0"
    diff "$OUT/cause_0" "$OUT/cause_1"
}

@test "two nodes: the second attempt succeeds" {
    two_nodes --max-restarts 3 sh -c '[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 0 ] && exit 1; exec sleep 100'
    [ "$status_0 $status_1" = "0 0" ]
}

@test "of many failures at once, on both nodes, all nodes name the same" {
    two_nodes --max-restarts 1 sh -c 'exit $((10 + RANK))'
    [ "$status_0" -ge 10 ]
    [ "$status_0" -eq "$status_1" ]
    diff <(cause "$OUT/node_0") <(cause "$OUT/node_1")
    diff <(grep -A 4 "Root cause" "$OUT/node_0") <(grep -A 4 "Root cause" "$OUT/node_1")
    ! has_extras || grep -q "^  time    : .*, by its node's clock$" "$OUT/node_0"
    diff <(grep "^  attempt" "$OUT/node_0") <(grep "^  attempt" "$OUT/node_1")
}

@test "what the first node to look has found is the cause for all, whatever they find" {
    cat > "$OUT/plant.py" <<'EOF'
import json, os, socket, struct, sys, time
if os.environ["RANK"] != "2":
    time.sleep(100)
key = "/%s/ddprun/root" % os.environ["TORCHELASTIC_RUN_ID"]
cause = json.dumps({ "status": 42, "signal": 0, "time": 1e9, "node": 0, "rank": 1, "local_rank": 1,
                     "pid": 4711, "host": "h", "message": "found first", "log": "" })
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(struct.pack("<BIB", 0, 0x3C85F7CE, 1))
for text in key, cause:
    store.sendall(struct.pack("<Q", len(text)) + text.encode())
store.sendall(struct.pack("<BI", 13, 1)) # it has it once it answers
store.recv(4)
sys.exit(7)
EOF
    export DDP_SECRET_FILE= # or nobody else could write this key
    two_nodes --master-addr 127.0.0.1 python3 "$OUT/plant.py"
    [ "$status_0 $status_1" = "42 42" ]
    for node in 0 1; do
        [[ $(cause "$OUT/node_$node") == "rank 1 on node 0 (h): exit status 42: found first" ]]
    done
}

@test "a rank that SIGPIPE killed, though its output is read, is tried again" {
    run -141 ddprun --max-restarts 1 sh -c "$note"'kill -PIPE $$'
    [ -e "$OUT/attempt_1" ]
}

@test "what would only fail again is not tried: a wrong option, no program, nobody who reads" {
    run -2 ddprun --nproc-per-node 2 --max-restarts 3 03_torchrun_env/train --epohcs 2
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"--epohcs is no option: "* ]]
    run -127 ddprun --max-restarts 3 "$OUT/nothing"
    [ "$output" = "ddprun: cannot start $OUT/nothing: No such file or directory" ]
    ddprun --max-restarts 3 sh -c "$note"'exec yes' 2>"$OUT/err" | head -n 1
    [ ! -e "$OUT/attempt_1" ]
    two_nodes --max-restarts 3 sh -c "$note"'[ $RANK = 2 ] && exit 2; exec sleep 100'
    [ "$status_0 $status_1" = "2 2" ]
    [ ! -e "$OUT/attempt_1" ]
    [ -z "$(cat "$OUT/node_0" "$OUT/node_1")" ]
}

@test "75 from all is no failure; from some it is" {
    run -75 ddprun --nproc-per-node 2 --max-restarts 3 sh -c "$note"'exit 75'
    [ -z "$output" ]
    [ ! -e "$OUT/attempt_1" ]
    two_nodes --max-restarts 3 sh -c "$note"'exit 75'
    [ "$status_0 $status_1" = "75 75" ]
    [ ! -e "$OUT/attempt_1" ]
    run -0 ddprun --nproc-per-node 2 --max-restarts 1 sh -c "$note"'
        [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; [ $RANK = 0 ] && exit 75; exit 0'
    [ -e "$OUT/attempt_1" ]
}

@test "each attempt has an empty store, and all ranks of the one before are gone" {
    cat > "$OUT/store.py" <<'EOF'
import os, socket, struct, sys
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
store.sendall(struct.pack("<BIBQQ6s", 0, 0x3C85F7CE, 5, 1, 6, b"/stale")) # is it there? 1: no
print("stale keys", 1 - store.recv(1)[0], flush=True)
store.sendall(struct.pack("<BQ6sQ4s", 1, 6, b"/stale", 4, b"keys") + struct.pack("<BI", 13, 1))
store.recv(4)
sys.exit(9)
EOF
    run -9 ddprun --max-restarts 2 python3 "$OUT/store.py"
    [ "$(echo "$output" | grep -c "stale keys 0")" -eq 3 ]
    run -9 ddprun --master-port "$(free_port)" --max-restarts 2 python3 "$OUT/store.py"
    [ "$(echo "$output" | grep -c "stale keys 0")" -eq 3 ]
    run -0 ddprun --nproc-per-node 2 --max-restarts 1 --shutdown-timeout 0.5 sh -c '
        [ $TORCHELASTIC_RESTART_COUNT = 0 ] || { ! kill -0 $(cat "$OUT/child"); exit; }
        trap "" TERM
        [ $RANK = 0 ] && { sleep 100 & echo $! > "$OUT/child"; wait; }
        until [ -s "$OUT/child" ]; do sleep 0.02; done; exit 1'
}

@test "log folders and error files are each attempt's own" {
    local files
    files=$(! has_extras || echo -r 3)
    run -3 ddprun --max-restarts 1 --log-dir "$OUT/l" --rdzv-id id $files sh -c '
        echo "attempt $TORCHELASTIC_RESTART_COUNT"
        echo "{\"message\": \"boom $TORCHELASTIC_RESTART_COUNT\"}" > $TORCHELASTIC_ERROR_FILE; exit 3'
    for attempt in 0 1; do
        ! has_extras || [ "$(cat "$OUT"/l/id_????????/attempt_$attempt/0/stdout.log)" = "attempt $attempt" ]
        [ -e "$(echo "$OUT"/l/id_????????/attempt_$attempt/0/error.json)" ]
    done
    [[ $(cause <<< "$output") == *": boom 1" && $output == *"attempt 0: rank 0 on node 0 ($(uname -n)): exit status 3: boom 0"* ]]
}

@test "attempts leave nothing open in the launcher" {
    local copy
    copy=$(! has_extras || echo --tee 3)
    run -1 ddprun --max-restarts 8 --log-dir "$OUT/l" $copy sh -c \
        'ls /proc/$PPID/fd | wc -l > $OUT/open_$TORCHELASTIC_RESTART_COUNT; exit 1'
    # This attempt's keys come and go; keys that each attempt left would add up.
    [ "$(cat "$OUT/open_8")" -lt "$(($(cat "$OUT/open_0") + 8))" ]
}

@test "without --log-dir: nothing stays, or the place is named" {
    run -3 ddprun --max-restarts 1 sh -c 'exit 3'
    [ -z "$(ls -A "$TMPDIR")" ]
    has_extras || return 0
    run -3 ddprun --max-restarts 1 -r 1 sh -c 'echo hi; exit 3'
    [[ ${lines[-1]} == "ddprun: logs are in $TMPDIR/"* ]]
    [ "$(cat "${lines[-1]#*are in }"/attempt_1/0/stdout.log)" = hi ]
    rm -r "${lines[-1]#*are in }"
}

@test "a trainer whose rank is killed trains anew" {
    run -0 ddprun --nproc-per-node 2 --max-restarts 1 sh -c '
        options="--model linear --save-every 0 --checkpoint-dir $OUT/c --timeout 60"
        [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exec 03_torchrun_env/train --epochs 2 $options
        [ $RANK = 0 ] && exec 03_torchrun_env/train --epochs 100000 $options > /dev/null
        timeout -s KILL 1 03_torchrun_env/train --epochs 100000 $options > /dev/null'
    [[ $output == *"restarting the group"*"Epoch 1 |"* ]]
}

@test "asked to end, it does not start again, not even while a failed attempt ends" {
    "$DDPRUN" --nproc-per-node 2 --max-restarts 9 sh -c "$note"'trap "exit 3" TERM
        touch "$OUT/up_$RANK"; while :; do sleep 0.05; done' > "$OUT/log" 2>&1 3>&- &
    await test -e "$OUT/up_0" -a -e "$OUT/up_1"
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status $(tail -n 1 "$OUT/log")" = "143 ddprun: ended by SIGTERM" ]

    "$DDPRUN" --nproc-per-node 2 --max-restarts 9 --shutdown-timeout 300 sh -c "$note"'
        [ $RANK = 0 ] && { until [ -e "$OUT/up" ]; do sleep 0.02; done; exit 3; }
        trap "touch \$OUT/ending" TERM; touch "$OUT/up"; until [ -e "$OUT/over" ]; do sleep 0.05; done' > "$OUT/log" 2>&1 3>&- &
    await test -e "$OUT/ending"
    kill -TERM $!
    touch "$OUT/over"
    status=0
    wait $! || status=$?
    [ "$status $(tail -n 1 "$OUT/log")" = "143 ddprun: ended by SIGTERM" ]
    [ ! -e "$OUT/attempt_1" ]
}

@test "nodes with different --max-restarts do not begin" {
    local port
    port=$(free_port)
    ddprun --nnodes 2 --node-rank 1 --master-port "$port" --max-restarts 1 true > "$OUT/node_1" 2>&1 3>&- &
    run -1 ddprun --nnodes 2 --master-port "$port" true
    status=0
    wait $! || status=$?
    [ "$status" -eq 1 ]
    [[ $output == *"--nnodes 2"*"but another one"*"--nnodes 2"* && $output == *"--max-restarts 1"* ]]
}

@test "usage errors of step 05: one line, status 2" {
    usage_errors <<'EOF'
MIN:MAX --nnodes 2:1 true
MIN:MAX --nnodes 0:1 true
MIN:MAX --nnodes 1:2:3 true
--rdzv-endpoint_HOST:PORT --nnodes 1:2 true
--rdzv-endpoint_HOST:PORT --nnodes 2 --rdzv-backend c10d true
agree_on_a_port --nnodes 1:2 --rdzv-endpoint h:0 true
is_not_supported --nnodes 1:2 --rdzv-backend etcd --rdzv-endpoint h:1 true
must_be_a_number_from_0_to_1000000,_not_"x" --nnodes 1:2 --rdzv-endpoint h --rdzv-conf last_call_timeout=x true
a_number_from_0_to_1000000 --nnodes 1:2 --rdzv-endpoint h --rdzv-conf join_timeout=-1 true
a_number_from_0.1 --rdzv-conf keep_alive_interval=0 true
1_to_1000 --rdzv-conf keep_alive_max_attempt=0 true
0_to_1 --rdzv-conf is_host=2 true
whole_number --max-restarts -1 true
EOF
}

@test "--help teaches what this step knows" {
    run -0 ddprun --help
    [[ $output == *MIN:MAX*--rdzv-endpoint*--max-restarts* ]]
    for setting in timeout join_timeout keep_alive_interval keep_alive_max_attempt last_call_timeout is_host; do
        grep -q "^  .*$setting .*([0-9f]" <<< "$output"
    done
    [ "$(echo "$output" | awk 'length > 100' | wc -l)" -eq 0 ]
}
