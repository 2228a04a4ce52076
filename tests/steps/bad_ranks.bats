#!/usr/bin/env bats
# Ranks that do not come, come late, come twice, or are of another job: which rank reports what, and when.

load bad_helper

# in_time NAME: long before a rank's default timeout of 300 s.
in_time() {
    [ "$(cat "$OUT/$1.seconds")" -le 100 ] || { echo "$1 took $(cat "$OUT/$1.seconds") s" && false; }
}

waits='waits for \(rank 2\|ranks [01] and 2\) of 3, [0-9]* s at most (--timeout)$' # which one may have said after 5 s, when the other was late, too

@test "a rank that never comes is named by the others in time" {
    # The launcher serves the store; of three ranks its one worker starts two. (They have this long to find each other;
    # less, and one of them may be named as missing where the machine is busy.)
    timeout=$(scaled_timeout 4)
    cat >"$OUT/two_of_three.sh" <<'EOF2'
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=3 "$@" >"$OUT/present.$rank" 2>&1 &
done
wait
EOF2
    run -0 timeout 200 $DDPRUN sh "$OUT/two_of_three.sh" "$TRAIN" 1 $LINEAR --timeout "$timeout" --checkpoint-dir "$OUT/c"
    for rank in 0 1; do
        [ "$(grep -v "$waits" "$OUT/present.$rank")" = "[rank $rank/3] fatal: rank 2 of 3 did not come within $timeout s" ]
    done
}

@test "without a launcher the missing rank is named too, and who misses rank 0 says so" {
    port=$(free_port) timeout=$(scaled_timeout 4)
    start_rank zero 0 3 -- --timeout "$timeout"
    start_rank one 1 3 -- --timeout "$timeout"
    for name in zero one; do
        until_true 250 test -s "$OUT/$name.status"
        [ "$(cat "$OUT/$name.status")" -eq 1 ]
        cat "$OUT/$name"
        [[ $(grep -v "$waits" "$OUT/$name") == "[rank "[01]"/3] fatal: rank 2 of 3 did not come within $timeout s" ]]
    done
    port=$(free_port)
    start_rank two 2 3 -- --timeout 2
    ended two 1 "no store at 127.0.0.1:$port within 2 s (nobody listens there): is rank 0 running"
    in_time zero
    in_time one
    in_time two
}

@test "a rank that comes late, but in time" {
    port=$(free_port)
    start_rank zero 0 2 -- --timeout 200
    until_true 100 listens "$port"
    sleep 1
    start_rank one 1 2 -- --timeout 200
    until_true 250 test -s "$OUT/zero.status" -a -s "$OUT/one.status"
    [ "$(cat "$OUT/zero.status" "$OUT/one.status")" = "0
0" ]
}

@test "of two ranks with the same number the second ends at once" {
    port=$(free_port)
    start_rank zero 0 2 -- --timeout 200
    until_true 100 listens "$port"
    start_rank again 0 2 -- --timeout 200
    ended again 1 "cannot serve the store at 127.0.0.1:$port: Address already in use"
    start_rank one 1 3 -- --timeout 200
    ended zero 1 "the ranks disagree: rank 0 has 2 ranks, rank 1 has 3 ranks"
    ended one 1 "rank 0 has 2 ranks"

    port=$(free_port)
    start_rank zero 0 3 -- --timeout 200
    start_rank first 1 3 -- --timeout 200
    start_rank second 1 3 -- --timeout 200
    until_true 250 test -s "$OUT/first.status" -o -s "$OUT/second.status"
    grep -qh "fatal: process [0-9]* on .* is rank 1 already: every rank needs" "$OUT/first" "$OUT/second"
    start_rank two 2 3 -- --timeout 200
    until_true 250 test -s "$OUT/zero.status" -a -s "$OUT/two.status"
    tail -n 3 "$OUT/zero" "$OUT/first" "$OUT/second" "$OUT/two"
    [ "$(cat "$OUT/zero.status" "$OUT/two.status")" = "0
0" ]
}

@test "ranks of another job and of another attempt do not disturb this one" {
    for other in TORCHELASTIC_RUN_ID=theirs TORCHELASTIC_RESTART_COUNT=0; do
        port=$(free_port)
        local own="TORCHELASTIC_RUN_ID=ours TORCHELASTIC_RESTART_COUNT=1"
        start_rank zero 0 2 $own -- --timeout 200
        until_true 100 listens "$port"
        timeout=$(scaled_timeout 2)
        start_rank stranger 1 2 $own $other -- --timeout "$timeout"
        ended stranger 1 "rank 0 of 2 did not come within $timeout s"
        [ ! -e "$OUT/zero.status" ]
        start_rank one 1 2 $own -- --timeout 200
        until_true 250 test -s "$OUT/zero.status" -a -s "$OUT/one.status"
        [ "$(cat "$OUT/zero.status" "$OUT/one.status")" = "0
0" ] || { cat "$OUT/zero" "$OUT/one" && false; }
        rm "$OUT"/*.status
    done
}
