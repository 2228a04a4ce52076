#!/usr/bin/env bats
# Signals to each process of a job: the status that its parent sees, the process named, and those left.

load bad_helper

start_ddprun() {
    start_job $DDPRUN --nproc-per-node 2 --shutdown-timeout 300 --master-port "${port:=$(free_port)}" sh -c \
        'echo $$ >"$OUT/pid.$RANK"; exec "$0" "$@"' "$TRAIN" $ENDLESS "$OUT/d"
}

@test "ddprun: 128 + signal, and who was asked is named" {
    for signal in INT TERM HUP KILL; do
        start_ddprun
        kill -$signal $job
        job_ends $((128 + $(number $signal)))
        [ $signal = KILL ] || grep -q "^ddprun: ended by SIG$signal$" "$OUT/said"
        ! listens "$port" || false
        rm -rf "${TMPDIR:?}"/* # SIGKILL leaves no process to do it
    done
}

@test "under nohup a hangup ends neither ddprun nor a rank" {
    DDPRUN="nohup $DDPRUN" start_ddprun
    kill -HUP $job "$(cat "$OUT/pid.0")" "$(cat "$OUT/pid.1")"
    : >"$OUT/said"
    for rank in 0 1; do until_true 200 has_line "^\[CPU$rank\] Epoch " "$OUT/said"; done
    kill -TERM $job
    job_ends 143
}

@test "ddprun by SIGKILL: what its ranks have started goes, too" {
    $DDPRUN --nproc-per-node 2 sh -c 'sh -c "trap : TERM; echo >\"\$OUT/up.\$RANK\"; sleep 1000" & wait' \
        >"$OUT/said" 2>&1 3>&- &
    job=$!
    for rank in 0 1; do until_true 200 [ -e "$OUT/up.$rank" ]; done
    kill -KILL $job
    job_ends 137
    rm -rf "${TMPDIR:?}"/*
}

@test "a rank of ddprun: its status becomes the launcher's, which names it" {
    for rank in 0 1; do
        for signal in INT TERM HUP KILL; do
            start_ddprun
            kill -$signal "$(cat "$OUT/pid.$rank")"
            job_ends $((128 + $(number $signal)))
            [[ $(cause "$OUT/said") == "rank $rank on node 0 "*": killed by SIG$signal" ]]
            ! listens "$port" || false
        done
    done
}
