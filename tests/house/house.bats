#!/usr/bin/env bats
# The house stays small, and its rooms keep their order: how much lies in common/, how much of it a program is made of,
# and which room may include which.

# The ceilings. A feature must fit under them: what it adds to common/ is taken out elsewhere.
LINES=13900          # of all files in common/
FILES=109
LINES_CPU=10700      # without CUDA, NCCL and MPI
LAUNCHER=3150        # of launcher/
ENTRIES=22           # of a step's folder, as ls shows them before make
FILE_LINES=500       # of any source file
TRAIN_LINES=180      # of a step's train.c
ASIDE_LINES=262      # of a train*.c in beyond/, which begins as one
ceilings() { # PROGRAM LINES: of common/ and launcher/, in a build for CPUs alone without extras (closure.py)
    cat <<END
01_single_gpu/train 5080
02_multi_gpu_spawn/train_a_spawn 5080
02_multi_gpu_spawn/train 10000
03_torchrun_env/train 10100
03_torchrun_env/ddprun 4990
04_slurm_multinode/train 10310
05_fault_tolerance/train 10320
05_fault_tolerance/ddprun 6170
END
}
built_ceilings() { # of the programs as they lie here: with extras/ and the step's own folder (closure.py --built)
    cat <<END
01_single_gpu/train 10840
02_multi_gpu_spawn/train 18750
05_fault_tolerance/train 20900
END
}

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

sources() {
    find . -name build -prune -o -name .git -prune -o \
        \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print
}

# at_most LIMIT WHAT NUMBER
at_most() {
    echo "$2: $3 of at most $1"
    [ "$3" -le "$1" ]
}

# room FOLDER PATTERN: the files of this folder include of our own what fits the pattern, and nothing else.
room() {
    [ -d "$1" ] || { echo "there is no $1" && return 1; }
    ! grep -n '^#include "' "$1"/*.[ch]* | grep -vE "#include \"($2)"
}

@test "common/ has no more lines and files than it may" {
    at_most $LINES lines "$(find common -type f ! -name README.md -exec cat {} + | wc -l)"
    at_most $FILES files "$(find common -type f ! -name README.md | wc -l)"
    at_most $LINES_CPU "lines without CUDA, NCCL and MPI" "$(find common -type f ! -name README.md ! -path '*/cuda/*' ! -path '*/nccl/*' ! -path '*/mpi/*' \
        -not -name '*cuda*' -exec cat {} + | wc -l)"
    at_most $LAUNCHER "lines of launcher/" "$(cat launcher/*.[ch] | wc -l)"
}

@test "ls of a step shows the step" {
    for step in 0[1-5]_*/; do
        at_most $ENTRIES "$step" "$(git ls-files "$step" | cut -d / -f 2 | sort -u | wc -l)"
    done
}

@test "a program is made of no more of common/ than it may be" {
    tests/house/closure.py >"$BATS_TEST_TMPDIR/closures"
    cat "$BATS_TEST_TMPDIR/closures"
    ceilings | while read -r program ceiling; do
        at_most "$ceiling" "$program" "$(awk -v program="$program" '$1 == program { print $2 }' "$BATS_TEST_TMPDIR/closures")"
    done
    ! grep -E '^(01_|.*/train_a_).*common/comm' "$BATS_TEST_TMPDIR/closures" # one device needs no network
}

@test "a program with its extras, too, and 01 links no network" {
    [ -e build/05_fault_tolerance/train.linked ] || skip "make builds the programs first"
    built_ceilings | cut -d ' ' -f 1 | xargs tests/house/closure.py --built >"$BATS_TEST_TMPDIR/closures"
    cat "$BATS_TEST_TMPDIR/closures"
    built_ceilings | while read -r program ceiling; do
        at_most "$ceiling" "$program" "$(awk -v program="$program" '$1 == program { print $2 }' "$BATS_TEST_TMPDIR/closures")"
    done
    ! grep '^01_.*common/comm' "$BATS_TEST_TMPDIR/closures"
}

@test "a room includes only rooms above it" {
    base=common/base/ data=common/data/ nn=common/nn/ comm=common/comm/ save=common/save/
    room common/base "$base"
    room common/data "$base|$data"
    room common/nn "$base|$data|$nn"
    room common/nn/cuda "$base|$data|$nn"
    room common/comm/store "$base|${comm}store/"
    room common/comm/tcp "$base|${comm}[^/]*$|${comm}(store|tcp)/"
    room common/comm/mpi "$base|${comm}[^/]*$|${comm}(store|mpi)/"
    room common/comm/nccl "$base|${comm}[^/]*$|${comm}(store|nccl)/"
    room common/comm "$base|${comm}[^/]*$|${comm}store/"
    room common/save "$base|$data|$nn|$save"
    room launcher "$base|launcher/|${comm}store/"
    [ "$(find launcher -mindepth 1 -type d)" = "" ]
    [ "$(find common -type d | sort | tr '\n' ' ')" = "common common/base common/comm common/comm/mpi common/comm/nccl common/comm/store common/comm/tcp \
common/data common/nn common/nn/cuda common/save " ]
}

@test "extras, steps, asides and tools include common and their own parts, and a tool what is a step's" {
    for extra in extras/*/; do
        case $extra in
        extras/watch/) other='|extras/group/|extras/output/terminal.h' ;; # the bar is drawn there
        extras/hierarchical/ | extras/nccl_register/ | extras/simulated_network/) other='|extras/group/' ;;
        *) other= ;;
        esac
        room "${extra%/}" "common/|launcher/|$extra$other"
    done
    for step in 0[1-5]_*/ 05_*/*/; do room "${step%/}" "common/|launcher/|${step%%/*}/"; done
    for topic in beyond/ beyond/*/; do room "${topic%/}" "common/|beyond/"; done
    for tool in tools/ tools/*/; do
        [ -z "$(find "$tool" -maxdepth 1 -name '*.c')" ] || room "${tool%/}" 'common/|launcher/|tools/(doctor|http|live|model)/|0[1-5]_[a-z_]*/'
    done
}

@test "no file includes itself by way of others" {
    run tests/house/circles.py
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "no two sources have one base name, but for the steps' programs" {
    names=$(find common extras launcher tools beyond 0[1-5]_* \( -name '*.c' -o -name '*.cu' \) ! -path '0*/train.c' ! -path '0*/ddprun.c' |
        sed 's|.*/\(.*\)\..*|\1|' | sort | uniq -d)
    [ -z "$names" ] || { echo "$names" && false; }
    names=$(find tests -name 'test_*.c' | sed 's|.*/||' | sort | uniq -d)
    [ -z "$names" ] || { echo "$names" && false; }
}

@test "no source file is longer than $FILE_LINES lines, no train.c longer than $TRAIN_LINES" {
    sources | xargs wc -l | awk -v most=$FILE_LINES '$2 != "total" && $1 > most { print; bad = 1 } END { exit bad }'
    wc -l 0[1-5]_*/train*.c beyond/*/train*.c | awk -v step=$TRAIN_LINES -v aside=$ASIDE_LINES '{ most = $2 ~ /^beyond/ ? aside : step }
        $2 != "total" && $1 > most { print; bad = 1 } END { exit bad }'
}

@test "CUDA, NCCL and MPI stay inside the files that need them" {
    sources | xargs grep -nE '#include <(mpi|nccl|cuda|cublas|cudnn|nvml|nvtx)' >"$BATS_TEST_TMPDIR/includes" || true
    ! grep -vE '^[^:]*(_mpi\.c|(cuda|nccl|cudnn)(_[^/]*)?\.[ch]|\.cu|/tests/(cuda|cuda_stand_in|against/gpu)/.*):' "$BATS_TEST_TMPDIR/includes"
}

# dash, unlike bash, runs no EXIT trap of a script that a signal ends.
@test "a script that tidies up when it ends does so when it is interrupted, too" {
    tidy=$(grep -rlE '^#!/bin/sh|^# shellcheck shell=sh' --exclude='*.bats' --exclude-dir={build,.git} . | xargs grep -lE '^[^#]*trap .* EXIT')
    [ "$(wc -l <<<"$tidy")" -gt 10 ]
    [ "$(xargs grep -LE 'trap .*(INT|TERM)' <<<"$tidy")" = "" ]
}
