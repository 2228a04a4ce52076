#!/usr/bin/env bats
# Trainer and launcher of step 05 together: whatever ends or freezes, the job recovers by itself, and
# ends with the bytes of an undisturbed one.

load faults_helper

# chaos ARGUMENTS...: random faults, and their expected results.
chaos() {
    run timeout 900 tests/faults/chaos.py "$OUT/chaos" --seed "$SEED" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    sed -n '/^[a-z]*: \|ended with/s/^/# /p' <<<"$output" >&3
}

# with_faults OPTIONS...: two ranks with --inject; their ends are in $output.
with_faults() {
    rm -rf "$OUT/c"
    MAX_RESTARTS=3 run timeout 400 $RUN 2 $options --checkpoint-dir "$OUT/c" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
    cmp "$OUT/straight/linear_random.safetensors" "$OUT/c/linear_random.safetensors"
}

@test "SIGKILL of ranks, launchers and agents at 30 random moments, some while a snapshot is written" {
    chaos --faults 30 --only kill-rank,kill-launcher
}

@test "--inject: the launcher starts anew, and the result is the same" {
    options="--model linear --epochs 60 --momentum 0.9 --save-every 0 --save-every-steps 100"
    undisturbed "$OUT/straight" 2 $options
    with_faults --inject kill:0:501,exit:1:905@1,kill:1:1203@2
    [[ $output == *"attempt 0: rank 0 on node 0 "*": killed by SIGKILL; restarting the group"* ]]
    [[ $output == *"attempt 1: rank 1 on node 0 "*": --inject exit: this rank gives up after step 905; restarting the group"* ]]
    [ "$(grep -c 'resumes from .*/snapshot_e' <<<"$output")" -eq 3 ]
    with_faults --inject stop:1:950 --timeout 10
    [[ $output == *"rank 1 is missing in "*" after 10 s: it is stopped or stuck"*"resumes from "*"/snapshot_e"* ]]
    with_faults --inject slow:0:1900:20
    [[ $output != *"restarting the group"* ]]
    with_faults --inject bitflip:0:950 --check-sync 50
    [[ $output == *"the replicas differ after step 950, first in weight: "*"resumes from "*"/snapshot_e"* ]]
    MAX_RESTARTS=3 run -0 timeout 400 $RUN 2 $options --checkpoint-dir "$OUT/d" --inject corrupt-grad:1:950 --check-sync 50
    [[ $output != *"restarting the group"* ]] # all replicas followed
    ! cmp -s "$OUT/straight/linear_random.safetensors" "$OUT/d/linear_random.safetensors"
}

@test "a stopped rank is named within the timeout; after the restart it goes on" {
    chaos --faults 3 --job one --only stop-rank
}

@test "a frozen agent, one that is told to stop, one that goes: the rest goes on" {
    chaos --faults 8 --job two --only freeze-launcher,term-launcher,usr1-launcher,kill-launcher
}

@test "2 to 1 to 2 agents in one job: every sample once, and the same bits" {
    options="--model linear --epochs 150 --momentum 0.9 --save-every 0 --save-every-steps 13 --log-interval 1
        --global-batch-size 64 --reduce-order fixed --threads 1"
    undisturbed "$OUT/straight" 2 $options
    curve <<<"$output" >"$OUT/straight.curve"
    PORT=$(free_port)
    agent host 1
    agent b 0
    until_true 200 grep -q '^\[rank 1/2\] node 1' "$OUT/host" "$OUT/b"
    until_true 200 grep -qE '^\[CPU0\] Epoch [1-9][0-9]? ' "$OUT/host" "$OUT/b"
    kill -KILL "${pid[b]}"
    wait "${pid[b]}" || true
    until_true 200 grep -q '^\[rank 0/1\] resumes from .*snapshot' "$OUT/host" || { cat "$OUT/host" "$OUT/b" && false; }
    agent b 0
    until_true 200 grep -q '^\[rank 0/2\] resumes from .*snapshot' "$OUT/host"
    wait "${pid[host]}"
    wait "${pid[b]}"
    cmp <(tensors "$OUT/straight") <(tensors "$OUT/c")
    # An attempt that ends between a snapshot and the line of its step omits that line.
    join <(curve <"$OUT/host") "$OUT/straight.curve" >"$OUT/both"
    [ "$(wc -l <"$OUT/both")" -ge $(($(wc -l <"$OUT/straight.curve") - 2)) ]
    agree <(cut -d ' ' -f 2 "$OUT/both") <(cut -d ' ' -f 3 "$OUT/both") 1e-5
}

# agent NAME IS_HOST: a node of one rank; its output goes to $OUT/NAME. The first two attempts are
# slow, so that a node has left and another has come before the end.
agent() {
    05_fault_tolerance/ddprun --nproc-per-node 1 --nnodes 1:2 --max-restarts 0 --rdzv-endpoint "127.0.0.1:$PORT" \
        --rdzv-conf "is_host=$2,last_call_timeout=2,keep_alive_interval=0.5,keep_alive_max_attempt=40" \
        05_fault_tolerance/train $options --inject slow:0:1:5,slow:0:1:5@1 --checkpoint-dir "$OUT/c" >"$OUT/$1" 2>&1 3>&- &
    pid[$1]=$!
}
declare -A pid

# EPOCH:PLACE LOSS, sorted: each from the last time that the run was there.
curve() {
    sed -n 's/^Train Epoch: \([0-9]*\) \[\([0-9]*\).* Loss: \(.*\)/\1:\2 \3/p' |
        awk '{ loss[$1] = $2 } END { for (at in loss) print at, loss[at] }' | sort
}

# The final checkpoint without its header, which has the world size.
tensors() {
    python3 -c 'import struct, sys
file = open(sys.argv[1], "rb")
file.seek(8 + struct.unpack("<Q", file.read(8))[0])
sys.stdout.buffer.write(file.read())' "$1/linear_random.safetensors"
}
