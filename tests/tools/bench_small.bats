#!/usr/bin/env bats
# The small suites of the benchmark print what bench/suite.py asks for, ours and PyTorch's alike.

setup() {
    build=${BUILD:-build}
}

# Each line is one measured case: a name, a positive number and a unit.
cases() {
    output=$(timeout 300 "$@" 2>"$BATS_TEST_TMPDIR/stderr") || { cat "$BATS_TEST_TMPDIR/stderr" && return 1; }
    echo "$output"
    cases=$(echo "$output" | python3 -c '
import json, sys
for line in sys.stdin:
    figure = json.loads(line)
    assert figure["value"] > 0 and figure["unit"] in ("s", "ms", "batches/s"), line
    print(figure["case"])')
}

# PyTorch measures the same cases as we did.
pytorch() {
    [ -n "${TORCH_BIN:-}" ] || skip "PyTorch's part: TORCH_BIN does not name where its python is"
    ours=$cases
    cases "$@"
    [ "$cases" = "$ours" ]
}

@test "checkpoints" {
    mkdir "$BATS_TEST_TMPDIR/files"
    cases "$build/bench/checkpoints" "$BATS_TEST_TMPDIR/files"
    [ "$(echo "$cases" | wc -l)" -eq 2 ]
    [ -z "$(ls "$BATS_TEST_TMPDIR/files")" ]
    pytorch "${TORCH_BIN:-}/python" bench/checkpoints.py "$BATS_TEST_TMPDIR/files"
}

@test "sampler and loader" {
    cases "$build/bench/rows"
    [ "$(echo "$cases" | wc -l)" -eq 2 ]
    pytorch "${TORCH_BIN:-}/python" bench/rows.py
}

@test "launchers" {
    cases bench/launches.py 2,3 03_torchrun_env/ddprun
    [ "$(echo "$cases" | grep -c '^[23] ranks, all ')" -eq 4 ]
    pytorch bench/launches.py 2,3 "${TORCH_BIN:-}/python" -m torch.distributed.run
}

@test "their suites name programs that are there" {
    run env PYTHONPATH=bench:bench/suites PYTHONDONTWRITEBYTECODE=1 python3 -c '
import files, data, launcher
for suite in files.SUITES + data.SUITES + launcher.SUITES:
    for contender in suite.contenders:
        print(*contender.command)'
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 7 ]
    for word in $(echo "$output" | sed "s|{build}|$build|g"); do
        case $word in
        bench/* | 03_* | "$build"/*) [ -x "$word" ] || { echo "$word" && return 1; } ;;
        esac
    done
}
