#!/usr/bin/env bats
# Disks that are full or read-only cost snapshots, never the run, nor an existing snapshot.

load faults_helper

# A disk of that size at $OUT/disk, for a script that runs in a namespace of its own; skips where
# mounting is not allowed.
with_disk() { # SIZE SCRIPT
    local namespace="unshare -m"
    [ "$(id -u)" -eq 0 ] || namespace="unshare -rm"
    mkdir "$OUT/disk"
    $namespace sh -c 'mount -t tmpfs none "$0"' "$OUT/disk" 2>/dev/null ||
        skip "no file system may be mounted here"
    # shellcheck disable=SC2016 # the inner shell expands
    run timeout 600 $namespace sh -euc 'mount -t tmpfs -o size="$0" none "$1" && eval "$2"' "$1" "$OUT/disk" "$2"
    echo "$output"
}

@test "a disk with room for one snapshot and a half" {
    options="2 --num-samples 640 --epochs 2 --save-every 0 --save-every-steps 4"
    undisturbed "$OUT/straight" $options
    with_disk 15m 'status=0 # the first finds room, those after it and the end do not
        timeout 300 '"$RUN $options"' --checkpoint-dir "$1/c" >"$OUT/full" 2>&1 || status=$?
        [ $status -eq 1 ]
        [ "$(ls -A "$1/c" | grep -v "flight\|^.lock")" = snapshot_e0_s4.safetensors ]
        mount -o remount,size=100m "$1"
        timeout 300 '"$RUN $options"' --checkpoint-dir "$1/c" >"$OUT/room" 2>&1
        cmp "$1/c/cnn_digits.safetensors" "$OUT/straight/cnn_digits.safetensors"'
    cat "$OUT/full"
    [ "$status" -eq 0 ]
    # Of the four, the last may still be written when the end fails.
    [ "$(grep -c 'warning: cannot write .*snapshot_e[01]_s[0-9]*.safetensors: No space left on device: training goes on' "$OUT/full")" -ge 3 ]
    [ "$(grep -c 'fatal: cannot write .*cnn_digits.safetensors: No space left on device: make room' "$OUT/full")" -eq 1 ]
    [ "$(grep -c '^Test Epoch' "$OUT/full")" -eq 2 ]
    grep -q "resumes from $OUT/disk/c/snapshot_e0_s4.safetensors" "$OUT/room"
}

@test "a disk that becomes read-only while the run goes on" {
    # Rank 1 stops itself until the disk is read-only, so that the run does not end before.
    with_disk 100m 'timeout 300 '"$RUN"' 2 --model linear --epochs 400 --save-every 0 --save-every-steps 100 \
            --inject stop:1:150 --checkpoint-dir "$1/c" >"$OUT/said" 2>&1 &
        run=$!
        rank_1() { pgrep -P "$(pgrep -P $run)" | tail -n 1; }
        for _ in $(seq 5000); do
            ! grep -q "snapshot saved" "$OUT/said" || ! grep -q "^State:.T" "/proc/$(rank_1)/status" || break
            sleep 0.02
        done
        mount -t tmpfs -o ro none "$1/c" # over it, since flight records keep the disk itself busy
        kill -CONT "$(rank_1)"
        status=0
        wait $run || status=$?
        [ $status -eq 1 ]
        umount "$1/c"
        ls "$1/c" >"$OUT/list"'
    [ "$status" -eq 0 ]
    grep -q 'warning: cannot write .*: Read-only file system: training goes on' "$OUT/said"
    [ "$(grep -c 'fatal: ' "$OUT/said")" -ge 1 ]
    grep -q '^\[CPU1\] Epoch 399 ' "$OUT/said"
    grep -q '^snapshot_' "$OUT/list" && ! grep '\.tmp$' "$OUT/list"
}
