#!/usr/bin/env bats
# As bad_signals.bats, for jobs without a launcher: step 02's fork, and ranks of a shell loop.

load bad_helper

@test "the parent of step 02" {
    for signal in INT TERM HUP KILL; do
        start_job 02_multi_gpu_spawn/train $ENDLESS "$OUT/d" --nproc 2
        kill -$signal $job
        job_ends $((128 + $(number $signal)))
    done
}

@test "a child of step 02: its status becomes the parent's" {
    for child in 1 2; do
        for signal in INT TERM HUP KILL; do
            start_job 02_multi_gpu_spawn/train $ENDLESS "$OUT/d" --nproc 2
            # Of two children that have ended, wait() reports the older one first. So that must not
            # end as well, for want of the other, before the parent looks.
            [ $child -eq 1 ] || kill -STOP "$(pgrep -P $job | head -n 1)"
            kill -$signal "$(pgrep -P $job | sed -n ${child}p)"
            job_ends $((128 + $(number $signal)))
        done
    done
}

@test "a rank of a shell loop: the other one names it" {
    for victim in 0 1; do
        for signal in INT TERM HUP KILL; do
            port=$(free_port)
            start_job sh -c 'for rank in 0 1; do
                RANK=$rank LOCAL_RANK=$rank "$@" & echo $! >"$OUT/pid.$rank"
            done
            wait "$(cat "$OUT/pid.0")"; echo $? >"$OUT/end.0"
            wait "$(cat "$OUT/pid.1")"; echo $? >"$OUT/end.1"' sh \
                env WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
                python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$TRAIN" $ENDLESS "$OUT/d"
            kill -$signal "$(cat "$OUT/pid.$victim")"
            job_ends 0
            [ "$(cat "$OUT/end.$victim")" -eq $((128 + $(number $signal))) ]
            [ "$(cat "$OUT/end.$((1 - victim))")" -eq 1 ]
            grep -q "^\[rank $((1 - victim))/2\] fatal: rank $victim is gone: connection closed during " "$OUT/said"
            ! listens "$port" || false
        done
    done
}

@test "PID 1, as in a container without an init: each program ends at once" {
    unshare -pf --mount-proc true 2>/dev/null || skip "unshare -pf --mount-proc is not allowed here"
    local program pid status
    export RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT
    MASTER_PORT=$(free_port)
    for signal in TERM INT; do
        for program in 01_single_gpu/train 02_multi_gpu_spawn/train 03_torchrun_env/train 04_slurm_multinode/train \
            "$DDPRUN --nproc-per-node 2 $TRAIN" "$DDPRUN --nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port $MASTER_PORT $TRAIN"; do
            [ -x "${program%% *}" ] || continue
            rm -f "$OUT/said" # the program before this one's
            python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' unshare -pf --mount-proc $program 1000000000 $LINEAR --checkpoint-dir "$OUT/d" >"$OUT/said" 2>&1 3>&- &
            job=$!
            until_true 100 is_busy "$program" || { cat "$OUT/said" && false; }
            until_true 100 pgrep -P $job >"$OUT/child" || { cat "$OUT/said" && false; }
            kill -$signal "$(head -n 1 "$OUT/child")"
            until_true 100 none_left || { echo "$program is still there" && false; }
            job_ends $((128 + $(number $signal)))
        done
    done
}

# Trains, or waits for another node.
is_busy() {
    if [[ $1 == *nnodes* ]]; then listens "$MASTER_PORT"; else has_line "^\[CPU0\] Epoch 3 " "$OUT/said"; fi
}
