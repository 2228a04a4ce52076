#!/usr/bin/env bats
# Attackers at all ports of a job of two ranks: it trains undisturbed.

load bad_helper

# start_digits NAME RANK: a rank in the background, its losses go to $OUT/NAME. Sets pid.
start_digits() {
    env MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" RANK="$2" LOCAL_RANK="$2" WORLD_SIZE=2 "$TRAIN" --max-steps 12 \
        --threads 1 --timeout 300 --metrics-dir "$OUT/$1" --checkpoint-dir "$OUT/$1.d" \
        >"$OUT/$1.$2" 2>&1 3>&- &
    pid=$!
}

start_attacker() {
    timeout 600 python3 tests/steps/attacker.py "$1" >"$OUT/attacker.$1" 2>&1 3>&- &
    attackers+=($!)
}

# The most memory a process has had so far, in MB; nothing when it has ended.
peak() {
    awk '/^VmHWM/ { print int($2 / 1024) }' "/proc/$1/status" 2>/dev/null || true
}

@test "two ranks under attack have the losses of two ranks in peace" {
    local ranks=() attackers=() memory=0 now rank
    port=$(free_port)
    for rank in 0 1; do
        start_digits alone $rank
        ranks+=($pid)
    done
    wait "${ranks[0]}"
    wait "${ranks[1]}"

    # Rank 0 has been attacked in every way before rank 1 comes, and is so until the end.
    port=$(free_port)
    start_digits attacked 0
    ranks=($pid)
    start_attacker "$pid"
    until_true 250 has_line "^attacked $port" "$OUT/attacker.$pid"
    start_digits attacked 1
    ranks+=($pid)
    start_attacker "$pid"
    while kill -0 "${ranks[0]}" 2>/dev/null; do
        now=$(peak "${ranks[0]}")
        memory=${now:-$memory}
        sleep 0.1
    done
    wait "${ranks[0]}"
    wait "${ranks[1]}"
    kill "${attackers[@]}"
    cat "$OUT"/attacker.*

    for rank in 0 1; do
        [ "$(wc -l <"$OUT/alone/rank$rank.jsonl")" -eq 12 ]
        diff <(jq .loss "$OUT/alone/rank$rank.jsonl") <(jq .loss "$OUT/attacked/rank$rank.jsonl")
    done
    cmp "$OUT/alone.d/cnn_digits.safetensors" "$OUT/attacked.d/cnn_digits.safetensors"
    echo "rank 0 had $memory MB at most"
    [ "$memory" -gt 10 ]
    [ "$memory" -lt 600 ]
}
