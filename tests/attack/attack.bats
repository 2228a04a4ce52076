#!/usr/bin/env bats
# Attackers at the ports of a job with a secret (tests/attack/attack.py): each attack is refused, and the job ends with
# the bits of one in peace. docs/security.md says what this protects, and what it does not.

load ../steps/bad_helper

ATTACK=tests/attack/attack.py

eval "base_$(declare -f setup)"

setup() {
    base_setup
    SECRET=$OUT/secret
    (umask 077 && head -c 32 /dev/urandom >"$SECRET")
}

# rank NAME RANK [WORLD_SIZE]: the command of one of three ranks, whose losses go to $OUT/NAME.
rank() {
    echo "exec env DDP_SECRET_FILE=$SECRET MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=$2 LOCAL_RANK=$2 WORLD_SIZE=${3:-3}" \
        "DDP_LOG=all $TRAIN 1 --threads 1 --timeout 300 --max-steps 8 --metrics-dir $OUT/$1 --checkpoint-dir $OUT/$1.d" \
        ">$OUT/$1.$2 2>&1"
}

# as_in_peace NAME: the job's losses and weights equal those of $OUT/peace.
as_in_peace() {
    local rank
    for rank in 0 1 2; do
        [ "$(wc -l <"$OUT/peace/rank$rank.jsonl")" -eq 8 ]
        diff <(jq .loss "$OUT/peace/rank$rank.jsonl") <(jq .loss "$OUT/$1/rank$rank.jsonl")
    done
    cmp "$OUT/peace.d/cnn_digits.safetensors" "$OUT/$1.d/cnn_digits.safetensors"
}

@test "strangers at the store and at the ranks: nobody gets in, and the bits are the same" {
    port=$(free_port)
    sh -c "$(rank peace 0)" 3>&- &
    sh -c "$(rank peace 1)" 3>&- &
    sh -c "$(rank peace 2)" 3>&- &
    wait

    port=$(free_port)
    sh -c "$(rank attacked 0)" 3>&- &
    until_true 100 listens "$port"
    { rank attacked 1 && rank attacked 2; } | timeout 500 "$ATTACK" job "$SECRET" "$port" "$OUT"
    wait $!
    as_in_peace attacked
    [ "$(grep -c 'turned away a connection' "$OUT/attacked.0")" -eq 8 ] # and says no more of such
    "$ATTACK" nowhere "$SECRET" $(find "$OUT" -type f ! -name secret)
}

@test "fake nodes, heartbeats and ends do not reach an elastic job" {
    local job
    port=$(free_port)
    touch "$OUT/go"
    for name in peace attacked; do
        env TMPDIR="$TMPDIR" timeout 300 05_fault_tolerance/ddprun --secret-file "$SECRET" --nnodes 1:2 --nproc-per-node 2 \
            --rdzv-endpoint "127.0.0.1:$port" --rdzv-conf last_call_timeout=0.5 --max-restarts 2 \
            sh -c "echo here; until [ -e $OUT/go ]; do sleep 0.1; done; exec 05_fault_tolerance/train 1 --threads 1 \
                --max-steps 20 --resume none --checkpoint-dir $OUT/$name.d" >"$OUT/$name" 2>&1 3>&- &
        job=$!
        if [ $name = attacked ]; then
            until_true 100 has_line here "$OUT/attacked"
            "$ATTACK" elastic "$port" "$(pgrep -P "$job" ddprun)"
            touch "$OUT/go"
        fi
        wait "$job"
        rm "$OUT/go"
    done
    cmp "$OUT/peace.d/cnn_digits.safetensors" "$OUT/attacked.d/cnn_digits.safetensors"
    [ "$(grep -cE 'restarting|no secret' "$OUT/attacked")" -eq 0 ]
    diff <(grep Loss "$OUT/peace") <(grep Loss "$OUT/attacked")
}

@test "960 idle strangers do not fill a process that may open 1,024 files" {
    local held
    port=$(free_port)
    (ulimit -n 1024 && exec sh -c "$(rank crowded 0)") 3>&- &
    job=$!
    until_true 100 listens "$port"
    "$ATTACK" idle "$port" "$job" >"$OUT/idle" 2>&1 3>&- &
    held=$!
    until_true 300 has_line 'idle strangers' "$OUT/idle"
    cat "$OUT/idle"
    sh -c "$(rank crowded 1)" 3>&- &
    sh -c "$(rank crowded 2)" 3>&-
    wait "$job"
    kill "$held"
    grep -q '^960 idle strangers' "$OUT/idle"
    [ "$(wc -l <"$OUT/crowded/rank2.jsonl")" -eq 8 ]
}

@test "500 half-open connections a second: a rank 0.1 s away calls as often as in peace" {
    local kind
    for kind in peace flood; do
        port=$(free_port)
        sh -c "$(rank $kind 0 2)" 3>&- &
        until_true 100 listens "$port"
        rank $kind 1 2 | timeout 300 "$ATTACK" far "$SECRET" "$port" $kind >"$OUT/far" 2>&1 3>&- || { cat "$OUT/far" "$OUT/$kind".? && false; }
        wait $!
        sed "s/^/# $kind: /" "$OUT/far" >&3
        grep -q "rank 1 is let in after .* and 2 calls" "$OUT/far"
    done
}

@test "whoever answers in the store's place gets nothing, and nobody falls back" {
    timeout 100 "$ATTACK" impostor >"$OUT/impostor" 2>&1 3>&- &
    until_true 60 test -s "$OUT/impostor"
    port=$(cat "$OUT/impostor")
    run sh -c "$(rank deceived 1)"
    cat "$OUT/deceived.1"
    [ "$status" -eq 1 ]
    grep -q "the store at 127.0.0.1:$port does not know this job's secret" "$OUT/deceived.1"
    kill $!
    [ "$(wc -l <"$OUT/impostor")" -eq 1 ] # it has not been told anything else
}

@test "the secret and the keys are in no core dump" {
    local rank cores
    [[ $(cat /proc/sys/kernel/core_pattern) == core* ]] || skip "core dumps go elsewhere on this machine"
    port=$(free_port)
    for rank in 0 1; do
        mkdir "$OUT/$rank"
        (train=$PWD/$TRAIN && cd "$OUT/$rank" && ulimit -c unlimited &&
            exec env "DDP_SECRET_FILE=$SECRET" MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" "RANK=$rank" "LOCAL_RANK=$rank" \
                WORLD_SIZE=2 "$train" 1000000 $LINEAR --checkpoint-dir d >said 2>&1) 3>&- &
    done
    until_true 100 has_line 'CPU1. Epoch 1' "$OUT/1/said"
    kill -ABRT $(left_over)
    wait
    cores=$(find "$OUT" -name 'core*')
    [ "$(echo "$cores" | wc -l)" -eq 2 ]
    for rank in 0 1; do grep -q "DDP_SECRET_FILE=$SECRET" "$OUT/$rank"/core*; done # what is in memory is there
    "$ATTACK" nowhere "$SECRET" $cores
    rm $cores
}

@test "the secret is in no environment, argument or file, and goes with the job" {
    local file pids
    for file in 02_multi_gpu_spawn/train 03_torchrun_env/ddprun; do
        case $file in
        02*) set -- "$file" --nproc 2 ;;
        *) set -- "$file" --nproc-per-node 2 "$TRAIN" ;;
        esac
        "$@" 1000000 $LINEAR --checkpoint-dir "$OUT/d" --metrics-dir "$OUT/metrics" >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 100 has_line 'CPU1. Epoch 1' "$OUT/said"
        pids=$(left_over)
        secret=$(for pid in $pids; do tr '\0' '\n' <"/proc/$pid/environ"; done | sed -n 's/^DDP_SECRET_FILE=//p' | sort -u)
        [ -n "$secret" ] || secret=$(find "/proc/$job/fd" -lname '*ddp secret*')
        [ "$(stat -Lc %a "$secret")" = 600 ]
        head -c 32 "$secret" >"$OUT/copy"
        for pid in $pids; do cat "/proc/$pid/environ" "/proc/$pid/cmdline"; done >"$OUT/seen"
        "$ATTACK" nowhere "$OUT/copy" $(find "$OUT" -type f ! -name copy)
        kill -KILL "$job" # even then
        wait "$job" || true
        await_no_process
        [ ! -e "$secret" ]
        rm -rf "${TMPDIR:?}"/* # of logs: SIGKILL leaves no process to do it
    done
}
