#!/usr/bin/env bats
# Restarts of step 05 when several runs or other world sizes use the same folder.

load ../../helpers/free_port

setup() {
    dir=$BATS_TEST_TMPDIR/checkpoints
}

# train STATUS RANKS OPTIONS...: a run with snapshots in $dir.
train() {
    local wanted=$1 ranks=$2
    shift 2
    run env MAX_RESTARTS="${MAX_RESTARTS:-0}" timeout 400 05_fault_tolerance/run.sh "$ranks" --model linear --checkpoint-dir "$dir" "$@"
    echo "$output"
    [ "$status" -eq "$wanted" ]
}

snapshots() {
    find "$dir" -name 'snapshot_*' -printf '%f\n' | sort -V | tr '\n' ' '
}

@test "--keep counts this run's snapshots, not another's, nor torn ones" {
    train 0 1 --num-samples 64 --batch-size 8 --epochs 1 --save-every-steps 4
    [ "$(snapshots)" = "snapshot_e0_s4.safetensors snapshot_e0_s8.safetensors " ]
    head -c 300 "$dir/snapshot_e0_s4.safetensors" >"$dir/snapshot_e9_s9.safetensors"
    train 0 1 --num-samples 64 --batch-size 32 --epochs 6 --save-every-steps 2 --keep 1 --save-every 0
    [ "$(snapshots)" = "snapshot_e0_s4.safetensors snapshot_e0_s8.safetensors snapshot_e5_s12.safetensors snapshot_e9_s9.safetensors " ]
}

@test "--reduce-order fixed resumes from an epoch's end, which 8 pads" {
    fixed="--num-samples 33 --batch-size 8 --reduce-order fixed --save-every-steps 5 --save-every 0"
    # shellcheck disable=SC2086 # several words
    train 0 1 $fixed --max-steps 5
    rm "$dir/linear_random.safetensors"
    # shellcheck disable=SC2086
    train 0 1 $fixed --max-steps 7
    [[ $output == *"resumes from $dir/snapshot_e0_s5.safetensors: epoch "*", step 5"* ]]
}

@test "--max-steps in the middle of an epoch leaves no checkpoint of one" {
    train 0 2 --max-steps 3
    [ "$(ls "$dir")" = "flight
linear_random.safetensors" ]
}

@test "a result that is older than where the run stands is written anew" {
    train 0 1 --num-samples 64 --batch-size 8 --max-steps 4 --save-every 0
    cp "$dir/linear_random.safetensors" "$BATS_TEST_TMPDIR/old"
    train 0 1 --num-samples 64 --batch-size 8 --max-steps 8 --save-every 0 --save-every-steps 8
    cp "$dir/linear_random.safetensors" "$BATS_TEST_TMPDIR/new"
    cp "$BATS_TEST_TMPDIR/old" "$dir/linear_random.safetensors" # killed between the two
    train 0 1 --num-samples 64 --batch-size 8 --max-steps 8 --save-every 0
    [[ $output == *"nothing left to do"* ]]
    cmp "$dir/linear_random.safetensors" "$BATS_TEST_TMPDIR/new"
    train 0 1 --num-samples 64 --batch-size 8 --max-steps 4 --save-every 0 # a shorter one leaves it
    cmp "$dir/linear_random.safetensors" "$BATS_TEST_TMPDIR/new"
}

@test "a group that has shrunk does not begin again over what it has" {
    train 0 2 --max-steps 4 --save-every-steps 4
    port=$(free_port)
    TORCHELASTIC_RESTART_COUNT=1 RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        run timeout 300 05_fault_tolerance/train --model linear --checkpoint-dir "$dir" --max-steps 8
    [ "$status" -eq 2 ]
    [[ $output == *"the number of ranks has changed"*"--global-batch-size"* ]]
    train 0 1 --max-steps 8 # a new start may
    [[ $output == *"a fresh start"* ]]
}

@test "an injected fault of another attempt does not mind how many ranks there are now" {
    train 2 1 --max-steps 2 --inject kill:1:1
    train 0 1 --max-steps 2 --inject kill:1:1@1
}

@test "two runs in one folder: the second says which process has it, and ends; the records stay" {
    said=$BATS_TEST_TMPDIR/said
    MAX_RESTARTS=0 timeout 400 05_fault_tolerance/run.sh 1 --model linear 10000000 --save-every 0 --checkpoint-dir "$dir" >"$said" 2>&1 3>&- &
    first=$!
    until grep -q '^\[CPU0\] Epoch' "$said"; do
        kill -0 $first
        sleep 0.1
    done
    holder=$(pgrep -f -- "train .*--checkpoint-dir $dir" | xargs -I{} grep -lx train /proc/{}/comm | cut -d/ -f3)
    kill -STOP "$holder" # it needs no time of the processors while it has the folder
    flight=$(ls -i "$dir/flight")
    MAX_RESTARTS=3 train 2 3 --max-steps 2
    [ "$(ls -i "$dir/flight")" = "$flight" ]
    pid=$(sed -n "s|.*process \([0-9]*\) of the job at [^ ]* on $(uname -n) saves its snapshots in $dir: wait for its end, or name another folder with --checkpoint-dir.*|\1|p" <<<"$output")
    [ "$pid" = "$holder" ]
    [[ $output == *"$dir is in use by process $pid of the job at "*": waits 10 s at most, in case it is just ending"* ]]
    kill -KILL "$pid"
    wait $first || true
    train 0 1 --max-steps 2 # its file stays, its lock does not
}

@test "restart.sh does not start again what was asked to end" {
    printf '#!/bin/sh\ntrap "exit 1" USR1\necho up\nwhile :; do sleep 0.1; done\n' >"$BATS_TEST_TMPDIR/job"
    chmod +x "$BATS_TEST_TMPDIR/job"
    05_fault_tolerance/restart.sh "$BATS_TEST_TMPDIR/job" >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
    timeout 300 sh -c 'until grep -q up "$0"; do sleep 0.1; done' "$BATS_TEST_TMPDIR/said"
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" -eq 1 ] && [ "$(cat "$BATS_TEST_TMPDIR/said")" = up ]
}
