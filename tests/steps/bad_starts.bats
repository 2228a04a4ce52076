#!/usr/bin/env bats
# Starts that cannot work: an invalid environment, missing devices and processes.

load bad_helper

# fails_with STATUS WORDS COMMAND...: one line, that status, and no timeout (of 200 s or more) in between.
fails_with() {
    local status_due=$1 words=$2
    shift 2
    SECONDS=0
    run timeout 200 "$@"
    [ "$status" -eq "$status_due" ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$words"* ]] &&
        [ "$SECONDS" -lt 100 ] && return
    echo "$*: status $status after $SECONDS s: $output" && return 1
}

# one_rank STATUS WORDS VARIABLE=VALUE | -u VARIABLE: a rank with an invalid environment.
one_rank() {
    fails_with "$1" "$2" env RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=29500 env "${@:3}" "$TRAIN" 1 $LINEAR --timeout 200 --checkpoint-dir "$OUT/c"
}

@test "each of the five variables: missing, empty, and numbers that are none" {
    for name in RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT; do
        one_rank 1 "$name is not set: start this program with" -u $name
        one_rank 1 "$name is not set: start this program with" $name=
        [ $name != MASTER_ADDR ] || continue
        for value in -1 4294967296 99999999999999999999 1x "1 " 1.5 0x1 nan; do
            one_rank 1 "$name is \"$value\": it must be a whole number from 0 on" "$name=$value"
        done
    done
    [ ! -e "$OUT/c" ]
}

@test "numbers that fit no job" {
    one_rank 1 "the master's port is 0: it must be one from 1 to 65535" MASTER_PORT=0
    one_rank 1 "the master's port is 65536: it must be one from 1 to 65535" MASTER_PORT=65536
    one_rank 1 "rank 0 in a group of 0" WORLD_SIZE=0 MASTER_PORT="$(free_port)"
    one_rank 1 "2147483647 ranks take 8589934716 descriptors here" WORLD_SIZE=2147483647 MASTER_PORT="$(free_port)"
    one_rank 1 "the name of the store's host is too long" MASTER_ADDR="$(printf 'x%.0s' $(seq 300))"
}

@test "too few descriptors on rank 0: every rank says so, and none waits" {
    port=$(free_port)
    ulimit -n 100 # of this test alone
    for rank in 0 1 2 3; do start_rank "few$rank" "$rank" 4 -- --timeout 200; done
    wait
    tail -n 2 "$OUT"/few?
    for rank in 0 1 2 3; do
        [ "$(cat "$OUT/few$rank.status")" -eq 1 ]
        [ "$(cat "$OUT/few$rank.seconds")" -lt 150 ]
        [ "$rank" -eq 0 ] || grep -q "rank 0 gives up: it may open too few files and connections (ulimit -n)" "$OUT/few$rank"
    done
    grep -q "4 ranks take 144 descriptors here, and a process may open 100: raise that (ulimit -n 144)" "$OUT/few0"
}

@test "nonsense in the variables that need not be there is passed over, or named" {
    local nonsense
    for nonsense in LOCAL_WORLD_SIZE=x LOCAL_WORLD_SIZE=-3 LOCAL_WORLD_SIZE=99999999999 \
        LOCAL_WORLD_SIZE= TORCHELASTIC_RESTART_COUNT=zz TORCHELASTIC_MAX_RESTARTS=-1 \
        TORCHELASTIC_USE_AGENT_STORE=maybe TORCHELASTIC_RUN_ID="$(printf '\351\n\001')" \
        TORCHELASTIC_ERROR_FILE=/nowhere/error.json OMP_NUM_THREADS=99999999; do
        port=$(free_port)
        start_rank one 0 1 "$nonsense"
        wait
        [ "$(cat "$OUT/one.status")" -eq 0 ] || { echo "$nonsense: $(cat "$OUT/one")" && false; }
    done
    one_rank 1 "TORCHELASTIC_RUN_ID is too long" TORCHELASTIC_RUN_ID="$(printf 'x%.0s' $(seq 300))"
}

@test "02 and ddprun: numbers of ranks that cannot be" {
    for n in 0 -1 100000 2x ""; do
        fails_with 2 "--nproc must be a whole number from 1 to 1024" 02_multi_gpu_spawn/train --nproc "$n"
        [ -z "$n" ] || fails_with 2 "it must be a number from 1 to 1024" $DDPRUN --nproc-per-node "$n" true
    done
    fails_with 2 "--nproc-per-node must not be empty" $DDPRUN --nproc-per-node "" true
}

@test "--device cuda without a GPU is said once" {
    [ ! -e /dev/nvidia0 ] || skip "there is a GPU"
    fails_with 2 "use --device cpu" env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
        MASTER_PORT=29500 "$TRAIN" --device cuda
    fails_with 2 "use --device cpu" 02_multi_gpu_spawn/train --nproc 2 --device cuda
    run -2 timeout 200 $DDPRUN --nproc-per-node 2 "$TRAIN" --device cuda
    [ "$(grep -c 'use --device cpu' <<<"$output")" -eq 1 ]
}

@test "a launcher starts no several trainings of steps that know none" {
    for program in 01_single_gpu/train 02_multi_gpu_spawn/train; do
        run -2 timeout 200 $DDPRUN --nproc-per-node 2 $program 1 $LINEAR --checkpoint-dir "$OUT/c"
        [ "$(grep -c 'one of 2 ranks (WORLD_SIZE), but step 0[12] knows no launcher' <<<"$output")" -eq 1 ]
        [ ! -e "$OUT/c" ]
        run -0 timeout 200 $DDPRUN --nproc-per-node 1 $program 1 $LINEAR --checkpoint-dir "$OUT/c"
        rm -r "$OUT/c"
    done
}

@test "more ranks than cores" {
    local ranks=$(($(nproc) * 2 + 1))
    run -0 timeout 300 $DDPRUN --nproc-per-node $ranks "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    [ -e "$OUT/c/linear_random.safetensors" ]
}


num_processes() {
    ps -L -u 65534 -o pid= | wc -l
}

is_quiet() {
    [ "$(num_processes)" -le "$1" ]
}

@test "a machine that has no room for another process: that is said, and nobody stays" {
    [ "$(id -u)" -eq 0 ] || skip "needs root, to become a user with few processes"
    local nobody="setpriv --reuid 65534 --regid 65534 --clear-groups prlimit"
    $nobody test -x "$PWD/$DDPRUN" || skip "other users may not read this folder"
    chmod -R a+rwX "$OUT" "$TMPDIR" "$BATS_RUN_TMPDIR"
    local used
    used=$(num_processes)
    for _ in 1 2 3; do
        run -1 timeout 200 $nobody --nproc=$((used + 12)) \
            02_multi_gpu_spawn/train 1 $LINEAR --nproc 30 --checkpoint-dir "$OUT/c"
        # The parent's line, and perhaps that of a child which wanted a thread.
        [[ $output == *"train: fatal: "*": Resource temporarily unavailable"* ]]
        ! grep -v "Resource temporarily unavailable" <<<"$output" || false
        until_true 100 is_quiet "$used" # a zombie counts as well
    done
    fails_with 126 "ddprun: cannot start sleep: Resource temporarily unavailable" \
        $nobody --nproc=$((used + 12)) $DDPRUN --nproc-per-node 30 sleep 100
}

has_children() {
    [ "$(pgrep -c -P "$1")" -eq 2 ]
}

# The parent dies while its children have not yet asked the kernel to die with it.
@test "step 02: a parent that dies at once takes its children along" {
    cat >"$OUT/late.c" <<'EOF2'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    usleep(1000 * 1000);
    return (int)syscall(SYS_prctl, option, a, b, c, d);
}
EOF2
    cc -shared -fPIC -o "$OUT/late.so" "$OUT/late.c"
    for program in train_a_spawn train_b_all_reduce train_c_sampler train; do
        LD_PRELOAD=$OUT/late.so 02_multi_gpu_spawn/$program --nproc 2 --epochs 1000 --threads 1 \
            --checkpoint-dir "$OUT/c" >/dev/null 2>&1 3>&- &
        local parent=$!
        until_true 100 has_children $parent
        kill -KILL $parent
        wait $parent || true
        await_no_process || { echo "$program" && false; }
    done
}
