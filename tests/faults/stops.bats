#!/usr/bin/env bats
# A request to stop at any time, on any rank: all ranks end with 75 and resume later.

load faults_helper

# Starts the run, sends the signal to a rank $pause milliseconds after its first line; the status must be
# 75, or 0 if the run was done first. Sets status.
stop_somewhere() { # SIGNAL RANK DIR RANKS OPTIONS...
    local signal=$1 rank=$2 dir=$3
    shift 3
    rm -f "$OUT/said"
    $RUN "$@" --checkpoint-dir "$dir" >"$OUT/said" 2>&1 3>&- &
    job=$!
    until_true 200 grep -qs '^\[rank .*\] node' "$OUT/said"
    until_true 200 grep -qs "^\[CPU$rank\] Epoch" "$OUT/said"
    sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
    pid=$(rank_pid "$rank")
    [ -z "$pid" ] || kill -"$signal" "$pid" 2>/dev/null || true
    status=0
    wait $job || status=$?
    cat "$OUT/said"
    [ "$status" -eq 75 ] || [ "$status" -eq 0 ]
    until_true 100 no_process
}

stopped_and_went_on() { # MODEL_DATASET RANKS OPTIONS...
    local file=$1.safetensors ranks=$2 stops=0
    shift 2
    local start took pause
    start=$(date +%s%N)
    undisturbed "$OUT/straight" "$ranks" "$@"
    took=$((($(date +%s%N) - start) / 1000000))
    for signal in TERM USR1 HUP USR1 TERM; do
        pause=$((RANDOM % (took / 2) + 1))
        stop_somewhere $signal $((RANDOM % ranks)) "$OUT/stopped" "$ranks" "$@"
        if [ "$status" -ne 0 ]; then
            stops=$((stops + 1))
        elif [ "$stops" -eq 0 ]; then # done before it was asked: once more, and sooner
            rm -r "$OUT/stopped"
            took=$((took / 2 + 1))
        else
            break
        fi
    done
    [ "$stops" -ge 1 ]
    undisturbed "$OUT/stopped" "$ranks" "$@"
    cmp "$OUT/straight/$file" "$OUT/stopped/$file"
}

@test "linear, 3 ranks" {
    stopped_and_went_on linear_random 3 --model linear --momentum 0.9 --epochs 1500 --save-every 0 --log-interval 100
}

@test "linear, 1 rank" {
    stopped_and_went_on linear_random 1 --model linear --optimizer adam --epochs 4000 --save-every 0 --log-interval 100
}

@test "cnn, 2 ranks, evaluations included" {
    stopped_and_went_on cnn_digits 2 --epochs 8 --num-samples 192 --save-every 0
}

@test "the launcher is told: it passes it on, and ends with 75" {
    for signal in TERM INT USR1; do
        python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL) # which a shell has ignored behind "&"
os.execvp(sys.argv[1], sys.argv[1:])' $RUN 2 --model linear 100000 --checkpoint-dir "$OUT/c" >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 200 grep -qs '^\[CPU1\] Epoch' "$OUT/said"
        kill -$signal $job
        status=0
        wait $job || status=$?
        [ "$status" -eq 75 ]
        grep -q 'stopped after step' "$OUT/said"
        rm "$OUT/said"
    done
}

@test "mpirun: SIGTERM to run.sh stops all, and a rank that is killed is started again" {
    command -v mpirun >/dev/null || skip "no mpirun"
    export LAUNCHER=mpirun MAX_RESTARTS=1
    options="--model linear --epochs 400 --save-every 0 --save-every-steps 200"
    undisturbed "$OUT/straight" 2 $options
    rm -f "$OUT/said"
    $RUN 2 $options --inject slow:0:1:2 --checkpoint-dir "$OUT/c" >"$OUT/said" 2>&1 3>&- &
    job=$!
    until_true 200 grep -qs 'snapshot saved' "$OUT/said"
    kill -KILL "$(processes | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != train ] || echo "$pid"; done | head -n 1)"
    status=0
    wait $job || status=$?
    cat "$OUT/said"
    [ "$status" -eq 0 ]
    grep -q 'restart 1 of 1' "$OUT/said"
    grep -q 'resumes from .*: epoch' "$OUT/said"
    cmp "$OUT/straight/linear_random.safetensors" "$OUT/c/linear_random.safetensors"

    : >"$OUT/said"
    $RUN 2 --model linear 1000000 --seed 5 --checkpoint-dir "$OUT/c" >"$OUT/said" 2>&1 3>&- &
    job=$!
    until_true 200 grep -qs '^\[CPU1\] Epoch' "$OUT/said"
    kill -TERM $job
    status=0
    wait $job || status=$?
    [ "$status" -eq 75 ]
    grep -q 'stopped after step' "$OUT/said"
}
