#!/usr/bin/env bats
# bench/many_ranks.py: its errors, its measurements of few ranks, the rank it names, and its model on known numbers.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    export BUILD=${BUILD:-build} PYTHONDONTWRITEBYTECODE=1 MARK=$BATS_TEST_TMPDIR
    unset TORCH_BIN RANK LOCAL_RANK
    out=$BATS_TEST_TMPDIR/found
}

# measure OPTION...: tables in $output, messages in $stderr.
measure() {
    run --separate-stderr timeout 100 bench/many_ranks.py --out "$out" --calls 1 --bytes 65536 "$@"
    # shellcheck disable=SC2154 # bats sets stderr
    printf '%s\n' "$output" "$stderr"
}

# left: the command lines of started processes that still run.
left() {
    for environ in $( (unset MARK && grep -lsxz "MARK=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ) || true); do
        tr '\0' ' ' <"${environ%environ}cmdline" 2>/dev/null | grep -E 'many_ranks(_mpi)? |^sleep' || true
    done
}

nothing_left() {
    left=$(left)
    [ -z "$left" ] || { echo "left: $left" && false; }
}

@test "words that it does not know: status 2, and the ranks' programs want three" {
    for words in --no-such-option "--ranks 1" "--ranks 4,x" "--who ddprun,slurm" "--turns 0" "--limit -1" "more"; do
        # shellcheck disable=SC2086 # several words
        run -2 bench/many_ranks.py $words
        [[ $output == "usage: many_ranks.py "*"many_ranks.py: error: "* ]]
    done
    make -s "$BUILD/bench/many_ranks"
    run -1 "$BUILD/bench/many_ranks" folder 65536
    [[ $output == *"usage: $BUILD/bench/many_ranks FOLDER BYTES CALLS" ]]
    run -2 "$BUILD/bench/many_ranks" folder 65536 3 4
    [[ $output == *'"4" has no place here'* ]]
}

@test "2 and 4 ranks, by each launcher that is here: a row each, with their connections" {
    make -s 03 "$BUILD/bench/many_ranks"
    if ! mpirun --version 2>&1 | grep -q 'Open MPI' || ! grep -q MPI=1 "$BUILD/parts"; then mpi=''; else mpi=1; fi
    [ -z "$mpi" ] || make -s "$BUILD/bench/many_ranks_mpi"
    measure --ranks 4,2
    [ "$status" -eq 0 ]
    # To the store and, for data and for notices, to one rank and to three.
    [ "$(jq -r 'select(.who == "ddprun") | "\(.ranks) \(.connections_start) \(.connections)"' "$out.jsonl")" = "2 3 3
4 7 7" ]
    jq -se 'map(select(.missing == null)) | all(.start > 0 and .start >= .launch and .all_reduce > 0 and .short > 0 and
        .rank_cpu > 0 and .launcher_cpu > 0 and .load >= 0)' "$out.jsonl"
    [[ $output == *"Not measured: torchrun, 2 ranks: no PyTorch here: tests/against/torch/venv.sh gets it."* ]]
    [ "$(jq -r 'select(.who == "torchrun") | .ranks' "$out.jsonl")" = 2 ] # and 4 were not tried
    if [ -n "$mpi" ]; then
        [ "$(jq -r 'select(.who == "mpirun" and .missing == null) | .ranks' "$out.jsonl" | paste -sd ' ')" = "2 4" ]
    fi
    [ -s "$out.svg" ] && [ -s "$out.png" ]
    nothing_left
}

@test "a launcher that hangs or fails is ended and named, and ours as well: status 1" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\nsetsid sleep 600 &\nsleep 600\n' >"$BATS_TEST_TMPDIR/bin/mpirun"
    chmod +x "$BATS_TEST_TMPDIR/bin/mpirun"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH measure --who mpirun --ranks 2,4 --limit 2
    [ "$status" -eq 0 ]
    [[ $output == *"Not measured: mpirun, 2 ranks: not done after 2 s: 0 of 2 ranks had started."* ]]
    [ "$(wc -l <"$out.jsonl")" -eq 1 ]
    nothing_left
    printf '#!/bin/sh\necho disk full\nexit 7\n' >"$BATS_TEST_TMPDIR/bin/mpirun"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH measure --who mpirun --ranks 2
    [[ $output == *"Not measured: mpirun, 2 ranks: ended with status 7, 0 of 2 ranks having started (disk full)."* ]]
    [[ $output == *"No model: it takes ours on two numbers of ranks."* ]]
    BUILD=$BATS_TEST_TMPDIR measure --who ddprun --ranks 2
    [ "$status" -eq 1 ]
    [[ $output == *"Not measured: ddprun, 2 ranks: ended with status "* ]]
}

@test "told to end, it ends the ranks first" {
    make -s 03 "$BUILD/bench/many_ranks"
    bench/many_ranks.py --out "$out" --who ddprun --ranks 4 --calls 100000000 >/dev/null 2>&1 3>&- &
    job=$!
    for _ in $(seq 600); do
        ! left | grep -q "^$BUILD/bench/many_ranks " || break
        sleep 0.1
    done
    left | grep "^$BUILD/bench/many_ranks "
    kill -TERM $job
    wait $job || [ $? -eq 143 ]
    nothing_left
}

@test "medians, and a model of 2 cores that finds the numbers again from which rows were made" {
    python3 - "$out.jsonl" <<'END'
import json, math, sys
with open(sys.argv[1], "w") as file:
    for n in 8, 32, 64, 128:
        k, cores = 2 * math.log2(n) + 2, len(__import__("os").sched_getaffinity(0))
        rank, launcher = 5e-3 + 1e-4 * k, 2e-3 + 5e-4 * n + 2e-5 * n * k
        ring = lambda size: n / cores * 2 * (n - 1) * (1e-5 + 1e-9 * size / n)
        T = lambda size: ring(size) if size / n >= 4096 else n / cores * math.log2(n) * (1e-5 + 1e-9 * size)
        for factor in 0.5, 1, 3: # the median counts
            print(json.dumps({"who": "ddprun", "ranks": n, "turn": 1, "bytes": 4799528, "launch": 1, "meeting": 1, "first": 1,
                              "start": factor * (n * rank + launcher) / cores * 2, "connections_start": k + 1, "connections": k + 1,
                              "ends": 0, "all_reduce": T(4799528), "short": T(65536), "memory": 1, "rank_cpu": factor * rank,
                              "launcher_cpu": factor * launcher, "load": 1}), file=file)
    print(json.dumps({"who": "mpirun", "ranks": 8, "turn": 1, "missing": "not done after 9 s"}), file=file)
END
    measure --draw
    [ "$status" -eq 0 ]
    [[ $output == *"a rank takes 5 ms + 0.1 ms a connection,"*"the launcher 2 ms + 0.5 ms a rank + 0.02 ms for each of its connections "* ]]
    [[ $output == *"a message 10 us + 1 ns a byte."* ]]
    [[ $output == *"Not measured: mpirun, 8 ranks: not done after 9 s."* ]]
    [ "$(grep -c ' -50%$' <<<"$output")" -eq 4 ] # of start-up, twice as long as by the model
    [ "$(grep -cE ' [+-]0%$' <<<"$output")" -eq 8 ]
    # 10,000 ranks: k is 28.575, a core for each: 5 + 2.9 + 2 + 5,000 + 5,715 ms, and 13.29 times 4.81 ms by doubling.
    [[ $output =~ 10000\ ranks\ +[0-9.e+]+\ +10\.7\ +[0-9.e+]+\ +0\.0639 ]]
    for text in 'start-up, s (points: measured)' 'all-reduce of a step, s (points: as on the left)' ddprun 'a core for each rank'; do
        grep -q ">$text<" "$out.svg"
    done
}
