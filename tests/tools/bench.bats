#!/usr/bin/env bats
# bench/bench.py: its results for suites whose figures are known beforehand.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    export BUILD=$BATS_TEST_TMPDIR/build OUT=$BATS_TEST_TMPDIR
    unset TORCH_BIN
    mkdir "$OUT/suites"
}

# How many processes are left of those that this test has started: OUT is in their environment.
left_over() {
    local mark="OUT=$OUT"
    (unset OUT && grep -lsxz "$mark" /proc/[0-9]*/environ | wc -l)
}

# says NAME VALUES...: a program NAME that records its calls, and prints the next VALUE each time.
says() {
    printf '#!/bin/sh\necho %s >>"$OUT/calls"\nset -- %s\nshift $(($(grep -c "^%s$" "$OUT/calls") - 1))\n%s\n' \
        "$1" "${*:2}" "$1" "echo \"{\\\"case\\\": \\\"sum\\\", \\\"value\\\": \$1, \\\"unit\\\": \\\"${UNIT:-ms}\\\"}\"" >"$OUT/$1"
    chmod +x "$OUT/$1"
}

# suite CONTENDERS [MORE]: writes a file of one suite, in which a contender is NAME: COMMAND.
suite() {
    cat >"$OUT/suites/${FILE:-file}.py" <<END
from suite import Contender, Goal, Suite
contenders = {$1}
SUITES = [Suite("${NAME:-one}", "The title", [Contender(name, command.split()) for name, command in contenders.items()],
                ${2-turns=3})]
END
}

# bench [ARGUMENTS]: runs the suites; its tables are in $output, and its messages in $stderr.
bench() {
    run --separate-stderr timeout 300 bench/bench.py --folder "$OUT/suites" "$@"
}

# figure FILTER: what jq finds in the suite's file.
figure() {
    jq -c "$1" "$BUILD/bench/one.json"
}

@test "contenders take turns; medians are over turns, and so are ratios" {
    says ours 10 30 20
    says theirs 20 90 100
    suite "'ours': '$OUT/ours', 'theirs': '$OUT/theirs'"
    bench
    [ "$status" -eq 0 ]
    [ "$(paste -sd ' ' "$OUT/calls")" = "ours theirs ours theirs ours theirs" ]
    [[ $output == *"| sum, ms | 20.0 (10.0-30.0) | 90.0 (20.0-100) | 3.00x (2.00-5.00) |"* ]]
    [[ $output == *"Medians of 3 turns, "* ]]
    figure '.cases[0].by.theirs | .turns == [20, 90, 100] and .median == 90' | grep -qx true
    figure '.cases[0].ratios.ours.theirs | .turns == [2, 3, 5] and .lowest == 2' | grep -qx true
    jq -e '.suites[0].name == "one" and .machine.cores > 0' "$BUILD/bench/bench.json"
    [[ $stderr == *"one: turn 3 of 3, theirs"* ]]
}

@test "of rates more is better; --turns, --quick and a suite's time end it sooner" {
    UNIT=samples/s says ours 10 30 20
    UNIT=samples/s says theirs 20 15 5
    suite "'ours': '$OUT/ours', 'theirs': '$OUT/theirs'"
    bench --turns 2
    [[ $output == *"20.0 (10.0-30.0) | 17.5 (15.0-20.0) | 1.25x (0.500-2.00) |"* ]]
    rm "$OUT/calls"
    bench --quick
    [[ $output == *"| sum, samples/s | 10.0 | 20.0   | 0.500x         |"*"1 turn. "* ]]
    suite "'ours': '$OUT/ours'" "seconds=0"
    rm "$OUT/calls"
    bench
    [ "$(figure .turns)" -eq 1 ]
}

@test "who is missing is named, who fails or hangs as well, and nothing of it stays" {
    says ours 1 1 1
    printf '#!/bin/sh\necho so far >&2\ntouch "$TMPDIR/mine"\necho disk full >&2\necho ---- >&2\nexit 7\n' >"$OUT/fails"
    printf '#!/bin/sh\ntrap "" TERM\nsetsid sleep 600 &\nsleep 600\n' >"$OUT/hangs"
    printf '#!/bin/sh\necho "{\\"case\\": 4}"\n' >"$OUT/strange"
    printf '#!/bin/sh\necho hello\n' >"$OUT/silent"
    chmod +x "$OUT"/*s "$OUT/strange" "$OUT/silent"
    mkdir "$OUT/tmp"
    export TMPDIR=$OUT/tmp
    UNIT=us says other 3 3 3
    suite "'ours': '$OUT/ours', 'absent': '$OUT/absent', 'torch': 'env {python} x.py', 'unbuilt': 'sh {build}/no', 'fails': '$OUT/fails',
        'hangs': '$OUT/hangs', 'strange': '$OUT/strange', 'silent': '$OUT/silent', 'other': '$OUT/other'" "turns=2, timeout=10"
    bench
    [ "$status" -eq 1 ]
    [ "$(left_over)" -eq 0 ]
    [ -z "$(ls -A "$TMPDIR")" ]
    [[ $output == *"Not measured: absent: no $OUT/absent here."* ]]
    [[ $output == *"Not measured: torch: no PyTorch here: tests/against/torch/venv.sh gets it."* ]]
    [[ $output == *"Not measured: unbuilt: no $BUILD/no here."* ]]
    [[ $output == *"**Failed**: fails: status 7: disk full"* ]]
    [[ $output == *"**Failed**: hangs: not done after 10 s, and killed"* ]]
    [[ $output == *'**Failed**: strange: not understood: {"case": 4}'* ]]
    [[ $output == *"**Failed**: silent: it printed no figure"* ]]
    [[ $output == *"**Failed**: other: sum is in us, where others have ms"* ]]
    [[ $output == *"| sum, ms | 1.00 (1.00-1.00) |"* ]]
    [ "$(grep -c 'turn 2 of 2, ' <<<"$stderr")" -eq 2 ]
}

@test "told to end, it ends its contender first" {
    printf '#!/bin/sh\nsetsid sleep 600 &\necho $! >"$OUT/started"\nsleep 600\n' >"$OUT/hangs"
    chmod +x "$OUT/hangs"
    suite "'ours': '$OUT/hangs'"
    bench/bench.py --folder "$OUT/suites" >/dev/null 2>&1 3>&- &
    job=$!
    for _ in $(seq 1000); do
        [ ! -s "$OUT/started" ] || break
        sleep 0.1
    done
    kill -TERM $job
    wait $job || [ $? -eq 143 ]
    [ "$(left_over)" -eq 0 ]
}

@test "each goal is reached, missed or not measured; of sizes the worst counts" {
    for size in 4 1024 1048576; do
        echo "echo '{\"case\": \"sum\", \"x\": $size, \"value\": 2, \"unit\": \"us\"}'"
    done >"$OUT/ours"
    sed -e 's/: 2,/: 5,/; 2s/: 5,/: 3,/' "$OUT/ours" >"$OUT/theirs"
    echo "echo '{\"case\": \"rate\", \"value\": 4, \"unit\": \"GB/s\"}'" >>"$OUT/ours"
    suite "'ours': 'sh $OUT/ours', 'theirs': 'sh $OUT/theirs', 'third': '$OUT/absent'" "turns=1, bus={'sum': 0.5}, goals=[
        Goal('sum, 1 KiB', 'theirs', 1.5), Goal('sum', 'theirs', 2, x_from=4), Goal('sum', 'theirs', 2, x_from=1025),
        Goal('sum, 4 B', limit=1.9), Goal('rate', limit=3.9), Goal('sum, 4 B', 'third', 2),
        Goal('sum, 4 B', 'ours', 0.5, ours='theirs'), Goal('no case', limit=1)]"
    bench
    [ "$status" -eq 0 ]
    goals=$(sed -n '/^Goals$/,$p' <<<"$output" | tr -s ' ')
    [ "$(sed '1,4d' <<<"$goals")" = "| reached | sum, 1 KiB: ours at least 1.5x theirs | 1.50x |
| missed | sum, from 4 B: ours at least 2x theirs | 1.50x at 1 KiB |
| reached | sum, from 1.00098 KiB: ours at least 2x theirs | 2.50x |
| missed | sum, 4 B: ours at most 1.9 us | 2.00 us |
| reached | rate: ours at least 3.9 GB/s | 4.00 GB/s |
| not measured | sum, 4 B: ours at least 2x third | |
| missed | sum, 4 B: theirs at least 0.5x ours | 0.400x |
| not measured | no case: ours at most 1 | |" ]
    # 1 MiB in 2 us are 524.288 GB/s, of which half is on the wire.
    [[ $output == *"| 1 MiB "*"| 524 / 262 "* ]]
    [ "$(od -An -c -j1 -N3 "$BUILD/bench/one.png" | tr -d ' ')" = PNG ]
    grep -q '>theirs<' "$BUILD/bench/one.svg"
}

@test "others' share of the machine: neither ours nor interrupts, and a warning" {
    PYTHONPATH=bench python3 - <<'END'
import io, machine
ticks, ours = iter(["0 0 0 0 0 0 0 0", "30 10 20 900 0 5 25 10"]), iter([0, 0, 0.3, 0.17])
class Usage: pass
def getrusage(_):
    usage = Usage()
    usage.ru_utime, usage.ru_stime = next(ours), 0
    return usage
machine.open = lambda *_, **__: io.StringIO("cpu  " + next(ticks) + " 0 0\n")
machine.resource.getrusage = getrusage
machine.os.sysconf = lambda _: 100
share = machine.Load().others()
assert abs(share - 0.023) < 1e-9, share
END
    suite "'ours': 'sh -c :'" "turns=1" # the warning is there even where nothing else is
    for _ in $(seq $(($(nproc) / 4 + 1))); do
        sh -c 'while :; do :; done' 3>&- &
        pids="${pids:-} $!"
    done
    bench
    kill $pids
    [[ $stderr == *"one: warning: others use "*"% of this machine already"* ]]
    [[ $output == *"**Warning**: others used "* ]]
    figure .others.warn | grep -qx true
}

@test "--write puts each suite in the place of its older figures, and leaves the rest" {
    results=$OUT/RESULTS.md
    printf '# Measured\n\nBefore.\n' >"$results"
    says ours 1 2 3
    suite "'ours': '$OUT/ours'" "turns=1"
    NAME=two FILE=second suite "'ours': '$OUT/ours'" "turns=1"
    bench --write "$results"
    printf '\n## After\n' >>"$results"
    [ "$(grep -c '^<!-- bench ' "$results")" -eq 2 ]
    # From wherever it is called.
    (cd "$OUT" && "$OLDPWD/bench/bench.py" second --folder suites --write RESULTS.md)
    [ "$(grep -c '^## make bench' "$results")" -eq 1 ]
    [ "$(grep -o '^| sum, ms | [0-9.]*' "$results" | cut -d ' ' -f 5 | paste -sd ' ')" = "1.00 3.00" ]
    grep -q '^    make bench SUITES=two$' "$results"
    [[ $(<"$results") == "# Measured"*"Before."*"$(nproc) cores; "*"## After" ]]
}

@test "the suites there are, and what is asked for wrongly" {
    run -0 bench/bench.py --list
    [[ $output == *"collectives_2 "*"Collectives between 2 ranks"* ]]
    run -1 bench/bench.py no_such
    [ "$output" = "bench.py: there is no suite no_such: --list names them" ]
    run -2 bench/bench.py --turns -1
    run -0 bench/bench.py --help
    [[ ${lines[0]} == "usage: bench/bench.py [SUITE ...] [options]" ]]
}
