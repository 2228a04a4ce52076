#!/usr/bin/env bats
# A disk that takes longer for a file than --timeout costs snapshots, and no job.

bats_require_minimum_version 1.5.0

RUN="timeout 300 05_fault_tolerance/run.sh 2 --num-samples 640 --epochs 1 --save-every 1 --threads 1"

setup_file() {
    cat >"$BATS_FILE_TMPDIR/slow_disk.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Sleeps $SLOW_SECONDS for files whose path fits $SLOW_FILES. */
int fsync(int fd)
{
    int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    readlink(link, path, sizeof path - 1);
    if (fnmatch(getenv("SLOW_FILES"), path, 0) == 0)
        sleep((unsigned)atoi(getenv("SLOW_SECONDS")));
    return real(fd);
}
END
    "${CC:-cc}" -shared -fPIC -o "$BATS_FILE_TMPDIR/slow_disk.so" "$BATS_FILE_TMPDIR/slow_disk.c" -ldl
}

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    export MAX_RESTARTS=0 dir=$BATS_TEST_TMPDIR/c
    disk=$(stat -c %m "$BATS_TEST_TMPDIR") # where it is mounted
}

# slow FILES SECONDS COMMAND...
slow() {
    SLOW_FILES=$1 SLOW_SECONDS=$2 LD_PRELOAD=$BATS_FILE_TMPDIR/slow_disk.so "${@:3}"
}

# Succeeds if there is one such line.
one_line() {
    [ "$(grep -c -e "$1" <<<"$output")" -eq 1 ]
}

@test "a slow snapshot costs those that are due meanwhile, and one line; the epoch's file waits for it" {
    run -0 slow '*/snapshot_e0_s2.*' 10 $RUN --save-every-steps 2 --timeout 8 --checkpoint-dir "$dir"
    echo "$output"
    [ "$(grep -c 'slow' <<<"$output")" -eq 1 ]
    one_line "^\[rank 0/2\] warning: $dir/snapshot_e0_s2.safetensors is not on disk after [0-9]*\.[0-9] s: $disk (.*) is slow: snapshots are skipped"
    one_line '^Epoch 0 | Training snapshot saved'
    [ -f "$dir/snapshot_e0_s2.safetensors" ]
    [ -f "$dir/epoch_1.safetensors" ]
    [ -f "$dir/cnn_digits.safetensors" ]
}

@test "the last file may take longer than the timeout" {
    run -0 slow '*/cnn_digits.*' 10 $RUN --timeout 8 --checkpoint-dir "$dir"
    echo "$output"
    one_line "warning: $dir/cnn_digits.safetensors is not on disk after .* s: $disk (.*) is slow: the ranks wait for it"
    [ -f "$dir/cnn_digits.safetensors" ]
}

@test "so may the snapshot of a stop" {
    run -75 slow '*/snapshot_*' 10 timeout --preserve-status 3 $RUN --epochs 100000 --save-every 0 --timeout 8 --checkpoint-dir "$dir"
    echo "$output"
    one_line 'stopped after step'
    one_line "warning: $dir/snapshot_.* s: $disk (.*) is slow: the ranks wait for it"
}

# Succeeds if the doctor reports this.
doctor_says() {
    tools/ddp_doctor "$dir" >"$BATS_TEST_TMPDIR/doctor" 2>&1 || true
    grep -q -e "$1" "$BATS_TEST_TMPDIR/doctor"
}

@test "the doctor names the disk, while rank 0 waits for it and when the job has ended" {
    slow '*/cnn_digits.*' 300 $RUN --checkpoint-dir "$dir" >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
    job=$!
    what="$disk (.*), to write $dir/cnn_digits.safetensors\.$"
    for _ in $(seq 3000); do
        ! doctor_says "Rank 0 has waited for a slow disk for [0-9.]* s: $what" || break
        sleep 0.1
    done
    cat "$BATS_TEST_TMPDIR/doctor" "$BATS_TEST_TMPDIR/said"
    doctor_says "rank 1 waits for rank 0.* Rank 0 has waited for a slow disk for [0-9.]* s: $what"
    kill -KILL "$(awk '$1 == "0" { print $2 }' "$BATS_TEST_TMPDIR/doctor")"
    local status=0
    wait $job || status=$?
    [ $status -ne 0 ]
    cat "$BATS_TEST_TMPDIR/said"
    doctor_says "Rank 0 ended while it waited for a slow disk: $what" || { cat "$BATS_TEST_TMPDIR/doctor" && false; }
}
