#!/usr/bin/env bats
# The diffs between the steps are lessons and stay short; so do the files; rooms know their place.

sources() {
    find . -name build -prune -o -name .git -prune -o \
        \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print
}

# hunks FILE FILE [OPTION]: how many places differ.
hunks() {
    diff "$@" | grep -c '^[0-9]'
}

# room NAME PATTERN: files in common/NAME include nothing of common/ but what fits the pattern.
room() {
    ! grep -rn '^#include "' "common/$1" | grep -vE "\"common/($2)"
}

@test "each step changes no more lines than it may" {
    [ "$(tools/stepdiff.sh --count | wc -l)" -ge 5 ]
    tools/stepdiff.sh --count | awk '$(NF - 2) < 1 || $(NF - 2) > $NF { print; bad = 1 } END { exit bad }'
}

@test "no place in a diff is white space alone" {
    tools/stepdiff.sh --count | while read -r _ before program _; do
        echo "$before $program"
        [ "$(hunks "$before" "$program")" -eq "$(hunks "$before" "$program" -w -B)" ]
    done
}

@test "no line is moved from one place to another" {
    tools/stepdiff.sh --count | while read -r _ before program _; do
        diff -w "$before" "$program" | sed -n 's/^< *\(.\{20,\}\)/\1/p' | sort >"$BATS_TEST_TMPDIR/gone"
        diff -w "$before" "$program" | sed -n 's/^> *\(.\{20,\}\)/\1/p' | sort >"$BATS_TEST_TMPDIR/new"
        moved=$(comm -12 "$BATS_TEST_TMPDIR/gone" "$BATS_TEST_TMPDIR/new")
        [ -z "$moved" ] || { echo "$program: $moved" && false; }
    done
}

@test "stepdiff prints a diff, or says which steps there are" {
    tools/stepdiff.sh 02 | grep -q '^+.*reducer_finalize(reducer);'
    run tools/stepdiff.sh 2
    [ "$status" -eq 2 ]
    [[ $output == *"02a 02b 02c 02 03 04 "* ]]
}

@test "no source file is longer than 500 lines, no train.c longer than 180" {
    sources | xargs wc -l | awk '$2 != "total" && $1 > 500 { print; bad = 1 } END { exit bad }'
    wc -l 0[1-5]_*/train*.c | awk '$2 != "total" && $1 > 180 { print; bad = 1 } END { exit bad }'
}

@test "a room includes only rooms above it" {
    room base base/
    room data 'base/|data/'
    room nn 'base/|data/|nn/'
    room comm 'base/|comm/'
    room save 'base/|data/|nn/|save/'
    [ ! -d common/launch ] || room launch 'base/|launch/|comm/store/store.*\.h|comm/store/net\.h'
}

@test "steps and tools include common and their own parts, and a tool what is a step's" {
    sources | grep -E '^./(0[1-5]_|tools/)' | xargs grep -n '^#include "' >"$BATS_TEST_TMPDIR/includes"
    ! grep -vE '"common/|^./(0[1-5]_[a-z_]*/).*"\1|^./tools/.*"(tools/doctor|tools/model|0[1-5]_[a-z_]*)/' "$BATS_TEST_TMPDIR/includes"
}

@test "CUDA, NCCL and MPI stay inside the files that need them" {
    sources | xargs grep -nE '#include <(mpi|nccl|cuda|cublas|cudnn|nvml|nvtx)' >"$BATS_TEST_TMPDIR/includes" || true
    ! grep -vE '^[^:]*(_mpi\.c|(cuda|nccl)(_[^/]*)?\.[ch]|\.cu|/tests/(cuda|cuda_stand_in|against/gpu)/.*):' "$BATS_TEST_TMPDIR/includes"
}
