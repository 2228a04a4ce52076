#!/usr/bin/env bats
# A stopped rank neither reads nor sends: the others end in time and name it.

load bad_helper

# stop_one RANK TIMEOUT: three ranks that would train forever, without a launcher; once they train, one
# is stopped. Their numbers go to pids. (The timeout is also that of three starts on a busy machine.)
stop_one() {
    local culprit=$1 rank
    timeout=$2
    port=$(free_port)
    pids=()
    for rank in 0 1 2; do
        env MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=3 \
            "$TRAIN" 1000000000 $LINEAR --timeout "$timeout" --checkpoint-dir "$OUT/d" >"$OUT/rank.$rank" 2>&1 3>&- &
        pids+=($!)
    done
    for rank in 0 1 2; do
        until_true 200 has_line "Epoch 3 " "$OUT/rank.$rank"
    done
    kill -STOP "${pids[$culprit]}"
}

@test "a rank that is stopped is named by the others in time, whether it serves the store or not" {
    for culprit in 0 2; do
        stop_one $culprit "$(scaled_timeout 4)"
        SECONDS=0
        for rank in 0 1 2; do
            [ $rank -ne $culprit ] || continue
            status=0
            wait "${pids[$rank]}" || status=$?
            [ "$status" -eq 1 ]
            grep -q "^\[rank $rank/3\] fatal: rank $culprit is missing in .* after $timeout s" "$OUT/rank.$rank"
        done
        [ "$SECONDS" -le 100 ] # of which some are due, and 300 would be without --timeout
        kill -CONT "${pids[$culprit]}" # it finds the others gone
        wait "${pids[$culprit]}" || status=$?
        [ "$status" -eq 1 ]
        grep -q "^\[rank $culprit/3\] fatal: the others gave up waiting for this rank in .* after $timeout s" "$OUT/rank.$culprit"
        ! listens "$port" || false
        rm "$OUT"/rank.*
    done
}

@test "a rank that is stopped while it waits hears, when it wakes, that it was given up" {
    stop_one 0 "$(scaled_timeout 4)"
    sleep 0.3 # the others come to wait for it; if they do not, this test sees less
    kill -STOP "${pids[1]}"
    kill -CONT "${pids[0]}"
    for rank in 0 2 1; do
        [ $rank -ne 1 ] || kill -CONT "${pids[1]}"
        status=0
        wait "${pids[$rank]}" || status=$?
        [ "$status" -eq 1 ]
    done
    grep -q "fatal: rank 1 is missing in .* after $timeout s" "$OUT/rank.0"
    grep -q "fatal: the others gave up waiting for this rank in .* after $timeout s" "$OUT/rank.1"
}

@test "a launcher wakes a stopped rank to end it" {
    rank_to_end launcher timeout 240 $DDPRUN --nproc-per-node 2 --shutdown-timeout 300 sh -c \
        'echo $$ >"$OUT/pid.$RANK"; exec "$0" "$@"' \
        "$TRAIN" 1000000000 $LINEAR --timeout "$(scaled_timeout 4)" --checkpoint-dir "$OUT/d" 3>&- &
    until_true 200 has_line "CPU1. Epoch 3 " "$OUT/launcher"
    until_true 200 has_line "CPU0. Epoch 3 " "$OUT/launcher"
    kill -STOP "$(cat "$OUT/pid.1")"
    SECONDS=0
    until_true 250 test -s "$OUT/launcher.status"
    [ "$(cat "$OUT/launcher.status")" -eq 1 ]
    [ "$SECONDS" -le 100 ] # and not --shutdown-timeout, 300 s more
    grep -q "fatal: rank 1 is missing in " "$OUT/launcher"
    [[ $(cause "$OUT/launcher") == "rank 0 on node 0 "* ]]
    ! has_extras || grep -q "rank 1 .*: killed by SIGTERM, told to end by ddprun" "$OUT/launcher"
}

@test "a master that is stopped before the others come" {
    port=$(free_port)
    start_rank zero 0 2 -- --timeout 200
    until_true 100 listens "$port"
    local master
    master=$(pgrep -f "train .*$OUT/zero.d" | while read -r pid; do [ "$(cat "/proc/$pid/comm")" = train ] && echo "$pid"; done)
    kill -STOP "$master"
    start_rank one 1 2 -- --timeout 2
    ended one 1 "no store at 127.0.0.1:$port within 2 s (what listens there does not answer as a store does)"
    kill -KILL "$master"
    until_true 100 test -s "$OUT/zero.status"
}

# whole NAME COMMAND...: two ranks that would train forever, and each counts its epochs. Adds to jobs.
whole() {
    local name=$1
    shift
    "$@" 1000000000 $LINEAR --timeout "$timeout" --checkpoint-dir "$OUT/$name.d" >"$OUT/$name" 2>&1 3>&- &
    jobs+=($!)
}

# Succeeds if each of two ranks has written this many lines of epochs.
trained() { # NAME LINES
    [ "$(grep -c '^\[CPU0\] Epoch' "$OUT/$1")" -ge "$2" ] && [ "$(grep -c '^\[CPU1\] Epoch' "$OUT/$1")" -ge "$2" ]
}

@test "jobs that are stopped as a whole, for longer than their timeout, go on when they are continued" {
    local jobs=() ranks names="spawned launched restarted replaced elastic" name lines
    timeout=$(scaled_timeout 4)
    port=$(free_port)
    whole spawned 02_multi_gpu_spawn/train --nproc 2
    whole launched $DDPRUN --nproc-per-node 2 $TRAIN
    export MAX_RESTARTS=0
    whole restarted 05_fault_tolerance/run.sh 2
    RECONFIGURE=1 whole replaced 05_fault_tolerance/run.sh 2
    whole elastic 05_fault_tolerance/ddprun --nnodes 1:2 --nproc-per-node 2 --rdzv-endpoint 127.0.0.1:"$port" \
        --rdzv-conf last_call_timeout=0.1 05_fault_tolerance/train
    for name in $names; do
        until_true 200 trained "$name" 3
    done
    kill -STOP $(left_over)
    sleep $((timeout + 2))
    lines=$(cd "$OUT" && wc -l $names | awk '$2 != "total" && $1 > most { most = $1 } END { print most }')
    kill -CONT $(left_over)
    for name in $names; do
        until_true 200 trained "$name" $((lines + 1)) # more than any of them had
    done
    ! (cd "$OUT" && grep -E 'fatal|gave up|leaves the group|is gone|FAILED' $names) || false
    kill -TERM "${jobs[@]}"
    wait
}
