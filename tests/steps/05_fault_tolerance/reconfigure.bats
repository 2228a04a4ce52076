#!/usr/bin/env bats
# The survivors of a failure continue in the same processes, and the final file is that of an undisturbed run.

load ../../faults/faults_helper
load ../../helpers/scaled_timeout

# train DIR RANKS OPTIONS...: a small run; with RECONFIGURE=1 unless QUIET is set.
train() {
    RECONFIGURE=${QUIET:-1} MAX_RESTARTS=${MAX_RESTARTS:-20} timeout 100 $RUN "$2" --model linear --num-samples 512 --epochs 3 --threads 1 \
        --momentum 0.9 --device cpu --reduce-order fixed --save-every 0 --checkpoint-dir "$OUT/$1" "${@:3}"
}

# same DIR RANKS OPTIONS...: that run ends with the same bytes as an undisturbed one, which $OUT/quietN keeps.
same() {
    [ -e "$OUT/quiet$2" ] || QUIET=0 train "quiet$2" "$2"
    export MAX_RESTARTS=20
    run -0 train "$@"
    cmp "$OUT/quiet$2/linear_random.safetensors" "$OUT/$1/linear_random.safetensors"
    rm -r "${OUT:?}/$1"
}

@test "whichever rank is killed, and when: only it is replaced" {
    for victim in 0 1 2 3; do
        for step in 1 6 12; do # of 12: at the last, the others may have ended before they notice
            same killed 4 --inject "kill:$victim:$step"
            echo "$output"
            [ "$step" -lt 12 ] || continue
            [ "$(grep -c "^ddprun: rank $victim: killed by SIGKILL; a new process takes its seat (1 of 20)" <<<"$output")" -eq 1 ]
            [ "$(grep -c "^ddprun: " <<<"$output")" -eq 1 ]
            [ "$(grep -c "node 0 (GROUP_RANK)" <<<"$output")" -eq 5 ] # processes: four, and a new one
            # The step before: its last message was lost with it.
            grep -qE "generation 2 goes on after step ($((step - 1))|$step): . of 4 ranks were sent the state from another's memory" <<<"$output"
        done
    done
}

@test "two at once, one after the other, all at once" {
    same two 4 --inject kill:1:5,kill:2:5
    same pair 4 --inject kill:0:5,kill:3:5
    same later 4 --inject kill:0:5,kill:1:7,kill:0:9@1
    grep -q "(3 of 20)" <<<"$output"
    same all 4 --save-every-steps 2 --inject kill:0:5,kill:1:5,kill:2:5,kill:3:5
    same all_again 2 --inject kill:0:5,kill:1:5
}

@test "a new rank with --metrics-dir makes no call that the others do not make" {
    for victim in 0 1; do
        same metrics 4 --metrics-dir "$OUT/m" --inject "kill:$victim:6"
        echo "$output"
        [ "$(grep -c "generation [0-9]* goes on" <<<"$output")" -eq 1 ]
    done
}

@test "a rank that hangs is killed after --timeout, and replaced" {
    for victim in 0 2; do
        same stopped 4 --timeout "$(scaled_timeout 2)" --inject "stop:$victim:6"
        grep -q "rank $victim is missing in all_reduce .*: this rank leaves the group" <<<"$output"
        grep -q "^ddprun: rank $victim keeps the others waiting: killing process" <<<"$output"
        [ "$(grep -c "^ddprun: rank $victim: killed by SIGKILL; a new" <<<"$output")" -eq 1 ]
    done
    same both 4 --timeout "$(scaled_timeout 2)" --inject stop:1:6,kill:2:6
}

@test "killed at any message of a step, of forming a group, or of the state: nothing is lost" {
    cat >"$OUT/nth.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int left = -1; /* messages that rank NTH_RANK's process NTH_LIFE may still send */

__attribute__((constructor)) static void begin(void)
{
    const char *rank = getenv("RANK"), *life = getenv("DDP_INCARNATION"); /* the launcher has none yet */
    if (rank && life && !strcmp(rank, getenv("NTH_RANK")) && !strcmp(life, getenv("NTH_LIFE")))
        left = atoi(getenv("NTH"));
}

static void count(void)
{
    if (left > 0 && __sync_sub_and_fetch(&left, 1) == 0)
        raise(SIGKILL);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    count();
    return ((ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg"))(fd, message, flags);
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    count();
    return ((ssize_t(*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send"))(fd, data, bytes, flags);
}
END
    cc -shared -fPIC -o "$OUT/nth.so" "$OUT/nth.c" -ldl
    export DDP_SHM_DISABLE=1 NTH NTH_RANK NTH_LIFE
    behind=0 kills=0 early=0
    kill_at() { # LIFE RANK MESSAGE; a first rank is killed before life 1, so that a group forms around it
        NTH_LIFE=$1 NTH_RANK=$2 NTH=$3
        LD_PRELOAD=$OUT/nth.so same nth 4 $([ "$1" -eq 0 ] || echo --inject "kill:$2:6") --log-interval 1000
        kills=$((kills + $(grep -c "takes its seat" <<<"$output" || true)))
        behind=$((behind + $(grep -c "[234] of 4 ranks were sent the state from another" <<<"$output" || true)))
        early=$((early + $(grep -c "state from the file" <<<"$output" || true)))
    }
    for life in 0 1; do
        for rank in 0 3; do
            for message in 3 $(seq $((9 + rank)) 24 110); do
                kill_at $life $rank "$message"
            done
        done
    done
    for message in $(seq 74 134); do # of steps; whether a survivor has ended its step is chance
        [ "$behind" -eq 0 ] || break
        kill_at 0 0 "$message"
    done
    echo "$kills kills; after $behind of them a survivor, too, was sent the state; $early before there was one"
    [ "$kills" -ge 24 ] && [ "$behind" -ge 1 ] && [ "$early" -ge 1 ]
}

@test "survivors keep their processes, and neither descriptors nor memory" {
    RECONFIGURE=1 MAX_RESTARTS=50 $RUN 2 --model linear --epochs 100000 --threads 1 --save-every 0 --log-interval 100000 --device cpu \
        --checkpoint-dir "$OUT/long" >"$OUT/said" 2>&1 3>&- &
    job=$!
    for kill in $(seq 12); do
        until_true 60 has_ranks 2
        until_true 60 grep -q "$([ "$kill" -eq 1 ] && echo "fresh start" || echo "generation $kill goes on")" "$OUT/said"
        pids=$(pgrep -d ' ' -P $job -x train_reconfigu)
        read -r first second <<<"$pids"
        [ "$kill" -eq 1 ] && survivor=$(rank_0 "$first" "$second")
        [[ " $pids " == *" $survivor "* ]]
        [ "$kill" -ne 2 ] || before=$(find "/proc/$survivor/fd" | wc -l)
        kill -KILL "$([ "$first" = "$survivor" ] && echo "$second" || echo "$first")"
    done
    until_true 60 grep -q "generation 13 goes on" "$OUT/said"
    after=$(find "/proc/$survivor/fd" | wc -l)
    echo "descriptors: $before, $after"
    [ "$after" -le "$((before + 1))" ] # one may be in use for a moment
    kill -TERM $job
    wait $job || [ $? -eq 75 ]
    grep -q "stopped after step .*: the same command resumes from there" "$OUT/said"
}

has_ranks() {
    [ "$(pgrep -c -P $job -x train_reconfigu)" -eq "$1" ]
}

@test "all killed at once: they go on from the snapshot, even one at the end of an epoch whose last batch is short" {
    options="--model linear --epochs 100 --max-steps 60 --save-every 0 --threads 1 --device cpu --save-every-steps 22" # 22 are an epoch
    RECONFIGURE=0 run -0 $RUN 3 $options --checkpoint-dir "$OUT/quiet"
    RECONFIGURE=1 MAX_RESTARTS=20 $RUN 3 $options --inject slow:0:20:60 --checkpoint-dir "$OUT/all" >"$OUT/said" 2>&1 3>&- &
    job=$!
    until_true 60 test -e "$OUT/all/snapshot_e0_s22.safetensors"
    kill -KILL $(pgrep -P $job -x train_reconfigu)
    wait $job
    grep "generation 2 goes on after step 22: 3 of 3 ranks were sent the state from the file" "$OUT/said"
    cmp "$OUT/quiet/linear_random.safetensors" "$OUT/all/linear_random.safetensors"
}

# Prints which of these processes is rank 0.
rank_0() {
    grep -lsxz RANK=0 "/proc/$1/environ" "/proc/$2/environ" | cut -d / -f 3
}

@test "a request to stop at the moment of a kill: all stop, and the next start resumes" {
    for signal in TERM USR1; do
        : >"$OUT/said" # here, since the shell in the background may open it late: no line of the start before counts
        RECONFIGURE=1 MAX_RESTARTS=20 $RUN 3 --model linear --epochs 100000 --threads 1 --save-every 0 --log-interval 100000 --device cpu \
            --checkpoint-dir "$OUT/stop" >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 60 has_epochs 9 # three on each rank; the second start begins where the first has stopped
        kill -KILL "$(pgrep -P $job -x train_reconfigu | head -n 1)"
        kill -$signal $job
        status=0
        wait $job || status=$?
        grep -v "Epoch" "$OUT/said"
        echo "status $status"
        [ "$status" -eq 75 ]
        grep -q "stopped after step" "$OUT/said"
    done
    grep -q "resumes from $OUT/stop/snapshot_" "$OUT/said"
}

@test "a request to stop, and the only rank is killed before the step has ended: the status is that of a stop" {
    for _ in 1 2 3 4 5 6 7 8; do
        : >"$OUT/said"
        RECONFIGURE=1 MAX_RESTARTS=1 timeout 100 $RUN 1 --model linear --epochs 100000 --threads 1 --save-every 0 --log-interval 100000 \
            --device cpu --inject slow:0:1:20 --checkpoint-dir "$OUT/alone" >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 60 has_epochs 1
        launcher=$(pgrep -P $job)
        rank=$(pgrep -P "$launcher" -x train_reconfigu)
        kill -USR1 "$launcher"
        kill -KILL "$rank" || true # it may have stopped already
        status=0
        wait $job || status=$?
        grep -v "Epoch" "$OUT/said"
        echo "status $status"
        [ "$status" -eq 75 ] # with one process more, which the signal must not end before it listens
    done
}

has_epochs() {
    [ "$(grep -c "Epoch " "$OUT/said")" -ge "$1" ]
}

@test "a stranger who says that training has ended gets no success: the final file is not there" {
    cat >"$OUT/end.py" <<'END'
import os, socket, struct, sys # to be run with a rank's environment
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
key = "/ddp.c/%s/%s/end" % (os.environ["TORCHELASTIC_RUN_ID"], os.environ["TORCHELASTIC_RESTART_COUNT"])
store.sendall(struct.pack("<BIB", 0, 0x3C85F7CE, 1) + b"".join(struct.pack("<Q", len(text)) + text for text in (key.encode(), sys.argv[1].encode())))
store.sendall(struct.pack("<BI", 13, 1)) # it has it once it answers
store.recv(4)
END
    export DDP_SECRET_FILE= # else nobody else could write this key
    for victim in 0 1; do
        RECONFIGURE=1 MAX_RESTARTS=20 timeout 100 $RUN 2 --model linear --epochs 100000 --threads 1 --save-every 0 --log-interval 100000 --device cpu \
            --checkpoint-dir "$OUT/end" >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 60 has_epochs 6
        read -r first second <<<"$(pgrep -d ' ' -P "$(pgrep -P $job)" -x train_reconfigu)"
        zero=$(rank_0 "$first" "$second")
        one=$([ "$zero" = "$first" ] && echo "$second" || echo "$first")
        env $(tr '\0' '\n' <"/proc/$zero/environ" | grep -E '^(MASTER_|TORCHELASTIC_R)') python3 "$OUT/end.py" 0
        kill -KILL "$([ "$victim" -eq 0 ] && echo "$zero" || echo "$one")"
        status=0
        wait $job || status=$?
        grep -v "Epoch" "$OUT/said"
        echo "status $status"
        [ "$status" -eq 1 ]
        [ ! -e "$OUT/end/linear_random.safetensors" ]
        grep -q "the store says that training has ended, but $OUT/end/linear_random.safetensors is not this run's result" "$OUT/said"
    done
}

@test "restarts that are used up end the job, with the cause" {
    export MAX_RESTARTS=1
    run -137 train used 2 --inject kill:1:5,kill:1:7@1
    echo "$output"
    [ "$(grep -c SIGKILL <<<"$output")" -eq 2 ] # the first, which was replaced, and the root cause
    [ "$(grep -c "takes its seat" <<<"$output")" -eq 1 ]
}

@test "the process that takes a seat says itself why it failed, not the one before" {
    # Both write as log_last_error does: only where there is no file.
    run -1 env DDP_RECONFIGURE=1 05_fault_tolerance/ddprun --max-restarts 1 --nproc-per-node 1 --no-python sh -Cc \
        'echo "{\"message\": \"error of process $DDP_INCARNATION\"}" >"$TORCHELASTIC_ERROR_FILE"; exit 1'
    echo "$output"
    [[ $output == *"a new process takes its seat (1 of 1)"*"error of process 1"* && $output != *"error of process 0"* ]]
    [[ $output != *"cannot create"* ]]
}

@test "wrong use is refused before any rank waits" {
    for options in "--backend mpi" "--all-reduce hierarchical" "--on-nan warn" "--trace $OUT/t" "--show-topology on"; do
        run -2 env RECONFIGURE=1 $RUN 2 --model linear --device cpu $options
        echo "$options: $output"
        [[ $output == *"ranks that survive a failure need --backend tcp or nccl, "* || $EXTRAS = 0 ]] # which has no --trace
    done
    run -2 05_fault_tolerance/ddprun --nproc-per-node 2 05_fault_tolerance/reconfigure/train_reconfigure --model linear
    [[ $output == *"no launcher replaces ranks that fail: start this program with RECONFIGURE=1 05_fault_tolerance/run.sh"* ]]
    run -2 env LAUNCHER=mpirun RECONFIGURE=1 $RUN 2 --model linear
    [[ $output == *"RECONFIGURE=1 needs LAUNCHER=ddprun"* ]]
}
