#!/usr/bin/env bats
# What a user's shell exports changes nothing of what we print and draw. In a language that writes 0,5, as German does,
# so do awk, sort and printf; with CDPATH, cd prints the folder, or finds another.

# A locale with a comma.
has_comma() {
    local point=/usr/lib/locale/C.utf8 # is on each Debian; German's may not be
    [ -d $point ] || skip "there is no $point to make a locale with a comma of"
    export LOCPATH=$BATS_TEST_TMPDIR
    cp -r $point "$LOCPATH/comma.utf8"
    python3 - $point/LC_NUMERIC "$LOCPATH/comma.utf8/LC_NUMERIC" <<'END'
import sys
before = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(before.replace(b".\0", b",\0"))
END
    [ "$(LC_ALL=comma.utf8 awk 'BEGIN { print 1 / 2 }')" = 0,5 ] || skip "this awk always prints 0.5"
}

# same COMMAND...: prints the same with a comma as with a point.
same() {
    LC_ALL=C.UTF-8 "$@" >"$BATS_TEST_TMPDIR/point"
    LC_ALL=comma.utf8 "$@" >"$BATS_TEST_TMPDIR/comma"
    [ -s "$BATS_TEST_TMPDIR/point" ]
    cmp "$BATS_TEST_TMPDIR/point" "$BATS_TEST_TMPDIR/comma"
}

@test "a comma: a training, its curves, and its lanes" {
    has_comma
    train() { # RANKS OPTIONS...
        03_torchrun_env/run.sh "$1" --model linear --lr 0.05 --lr-schedule step --epochs 2 --save-every 0 \
            --checkpoint-dir "$BATS_TEST_TMPDIR" "${@:2}" 2>/dev/null
    }
    same train 1
    plot() {
        tools/plot.sh "$BATS_TEST_TMPDIR/metrics" >/dev/null && cat "$BATS_TEST_TMPDIR/metrics/plot.svg"
    }
    train 2 --metrics-dir "$BATS_TEST_TMPDIR/metrics"
    same plot
    grep -q EXTRAS=0 "${BUILD:-build}/parts" || { # else there is no --trace
        lanes() {
            tools/lanes.sh "$BATS_TEST_TMPDIR/trace.json" 2 >/dev/null && cat "$BATS_TEST_TMPDIR/trace.svg"
        }
        train 2 --trace "$BATS_TEST_TMPDIR/trace.json"
        same lanes
    }
}

@test "a comma: what documents quote, and quizzes ask for" {
    has_comma
    show() {
        rm -f "$BATS_TEST_TMPDIR/.exports"
        python3 -c 'import sys; sys.path.insert(0, "tools"); import docs; print(docs.show(*sys.argv[1:]))' "$1" "$BATS_TEST_TMPDIR"
    }
    same show "awk 'BEGIN { print 1 / 2; exit \"0.5\" + 0 < 0.4 }' && printf '%.1f\n' 0.5"
}

@test "a comma: each other script that computes by awk, or sorts numbers, does so with a point" {
    run grep -L '^export LC_ALL=C.UTF-8' $(grep -lE '\bawk\b|sort -[gkn]' tools/*.sh bench/*.sh teach/*.sh)
    [ "$output" = tools/prove.sh ] # which compares names
}

@test "CDPATH: no script heeds it" {
    for command in 'teach/lab.sh list' 'tools/stepdiff.sh --pairs' '04_slurm_multinode/run.sh --help'; do
        $command >"$BATS_TEST_TMPDIR/without" 2>&1 || true
        CDPATH=. $command >"$BATS_TEST_TMPDIR/with" 2>&1 || true
        cmp "$BATS_TEST_TMPDIR/without" "$BATS_TEST_TMPDIR/with"
    done
    ! grep -nE "(^|[^'] )cd \"?\$\(dirname" ./*.sh .ci/run */*.sh */*/*.sh || false
}
