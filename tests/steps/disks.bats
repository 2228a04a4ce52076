#!/usr/bin/env bats
# Disks that are full, read-only or another user's, paths that are not folders: one line, before the
# training if possible, then with status 2; existing checkpoints stay, and no other file does.

load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$BATS_TEST_TMPDIR
    export MARK=$scratch # by which the processes of a test are known
    mkdir "$scratch/disk" "$scratch/tmp"
    export TMPDIR=$scratch/tmp
    digits="1 --num-samples 64 --threads 1" # which another user can read
    short="$digits ${few[*]}"
}

# The programs of this test that still run.
left_over() {
    local environ
    for environ in $(grep -lsxz "MARK=$scratch" /proc/[0-9]*/environ); do
        cat "${environ%environ}comm" 2>/dev/null || true
    done | grep -x "train\|ddprun" || true
}

teardown() {
    chmod -R u+w "$scratch"
    for _ in $(seq 600); do # those of a parent that ended are killed, which takes a moment
        [ -n "$(left_over)" ] || break
        sleep 0.1
    done
    [ -z "$(left_over)" ] && [ -z "$(ls -A "$TMPDIR")" ]
}

# Runs a command that must end with status 1 (or 2) and a line with these words, before it has trained.
fails_at_start() { # [STATUS] WORDS COMMAND...
    local wanted=1
    [ "$1" != 2 ] || { wanted=2 && shift; }
    local words=$1
    shift
    run timeout 300 "$@"
    echo "$output"
    [ "$status" -eq "$wanted" ]
    [ "$(grep -cF -e "$words" <<<"$output")" -ge 1 ]
    no_line '^\[CPU\|^Train'
}

# Runs a script with a file system of its own, whose folder is its $1; skips where mounting is not allowed
# one. In the script, `fails COMMAND` must fail.
with_disk() { # OPTIONS SCRIPT
    local namespace="unshare -m"
    [ "$(id -u)" -eq 0 ] || namespace="unshare -rm"
    $namespace sh -c 'mount -t tmpfs none "$0"' "$scratch/disk" 2>/dev/null ||
        skip "no file system may be mounted here"
    # shellcheck disable=SC2016 # the inner shell expands
    run timeout 400 $namespace sh -euc 'fails() { ! "$@" || exit 9; }
        mount -t tmpfs -o "$0" none "$1" && eval "$2"' "$1" "$scratch/disk" "$2"
    echo "$output"
}

# As an ordinary user, because root passes every permission check.
nobody() {
    [ "$(id -u)" -ne 0 ] || echo setpriv --reuid 65534 --regid 65534 --clear-groups
}

# Fails where a line of the output matches.
no_line() { # PATTERN
    ! grep -e "$1" <<<"$output"
}

@test "standard output is full: status 1 and a line, from every program" {
    tee=$(grep -qx EXTRAS=0 "${BUILD:-build}/parts" || echo --tee 2)
    for program in 01_single_gpu/run.sh "02_multi_gpu_spawn/run.sh 2" "03_torchrun_env/run.sh 2" \
        "03_torchrun_env/ddprun $tee --nproc-per-node 2 03_torchrun_env/train"; do
        run timeout 300 sh -c "$program $short --checkpoint-dir '$scratch/c' 2>&1 >/dev/full"
        echo "$output"
        [ "$status" -eq 1 ]
        [[ $output == *"cannot write to standard output: No space left on device"* ]]
        rm -rf "$TMPDIR"/* # logs of --tee
    done
}

@test "standard output is closed: no other file gets its lines" {
    run timeout 300 sh -c "01_single_gpu/train $short --checkpoint-dir '$scratch/c' --metrics-dir '$scratch/m' 2>&1 >&-"
    [ "$status" -eq 1 ]
    [[ $output == *"cannot write to standard output: Bad file descriptor"* ]]
    [ ! -s "$scratch/m/rank0.jsonl" ]
    timeout 300 01_single_gpu/train $short --checkpoint-dir "$scratch/c" --metrics-dir "$scratch/m" <&- 2>&- >"$scratch/out"
    [ "$(jq -c .step "$scratch/m/rank0.jsonl" | tr '\n' ' ')" = "1 2 " ]
    [ "$(grep -c Epoch "$scratch/out")" -eq 5 ]
}

@test "bad --checkpoint-dir and --metrics-dir are noticed before the training" {
    touch "$scratch/file"
    ln -s loop "$scratch/loop"
    ln -s nowhere/else "$scratch/nowhere"
    mkfifo "$scratch/pipe"
    for folder in "$scratch/file" "$scratch/file/below" "$scratch/loop" "$scratch/nowhere" "$scratch/pipe" /proc/none; do
        for program in 01_single_gpu/run.sh "02_multi_gpu_spawn/run.sh 2" "03_torchrun_env/run.sh 2"; do
            fails_at_start 2 "name another with --checkpoint-dir" $program $short --checkpoint-dir "$folder"
            fails_at_start 2 "name another with --metrics-dir" $program $short --metrics-dir "$folder" --checkpoint-dir "$scratch/c"
        done
    done
    [ ! -e "$scratch/c" ]
    for option in checkpoint metrics; do # and 05 does not start again
        fails_at_start 2 "name another with --$option-dir" 05_fault_tolerance/run.sh 2 $short \
            --checkpoint-dir "$scratch/c" --$option-dir "$scratch/file"
        [ "$(grep -c "name another with" <<<"$output")" -eq 1 ]
    done
}

@test "folders without permission" {
    $(nobody) 01_single_gpu/train --help >/dev/null 2>&1 || skip "another user cannot run this program"
    chmod 755 "$scratch" "$scratch/disk"
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    chmod 555 "$scratch/disk"
    for folder in "$scratch/disk" "$scratch/disk/below/it"; do
        fails_at_start 2 "Permission denied: name another with --checkpoint-dir" $(nobody) \
            01_single_gpu/train $digits --checkpoint-dir "$folder"
    done
    fails_at_start 2 "Permission denied: name another" $(nobody) \
        01_single_gpu/train $digits --checkpoint-dir /tmp --metrics-dir "$scratch/disk"
    fails_at_start "Permission denied: name another" $(nobody) 03_torchrun_env/ddprun \
        --log-dir "$scratch/disk/logs" 03_torchrun_env/train $digits
}

@test "a read-only disk" {
    with_disk size=1m 'touch "$1/old"; mount -o remount,ro "$1"
        for option in checkpoint metrics; do
            for program in 01_single_gpu/run.sh "03_torchrun_env/run.sh 2"; do
                for folder in "$1" "$1/x"; do
                    fails $program '"$short"' --checkpoint-dir "$MARK/c" --$option-dir "$folder"
                done
            done
        done'
    [ "$status" -eq 0 ]
    [ "$(grep -c "Read-only file system: name another.* with --checkpoint-dir" <<<"$output")" -eq 4 ]
    [ "$(grep -c "Read-only file system: name another.* with --metrics-dir" <<<"$output")" -ge 4 ]
    no_line ^Train
}

@test "the disk fills up while saving: the older checkpoints stay whole, nothing else stays" {
    for program in 01_single_gpu/run.sh "02_multi_gpu_spawn/run.sh 2" "03_torchrun_env/run.sh 2"; do
        with_disk size=24m 'status=0 # two checkpoints of 10 MB find room, the last does not
            '"$program"' 2 1 '"${few[*]}"' --num-samples 64 --checkpoint-dir "$1/c" || status=$?
            [ $status -eq 1 ]
            [ "$(ls -A "$1/c" | tr "\n" " ")" = "epoch_1.safetensors epoch_2.safetensors " ]
            cp "$1/c/epoch_2.safetensors" "$MARK/before"
            fails '"$program"' 2 1 '"${few[*]}"' --num-samples 64 --seed 7 --checkpoint-dir "$1/c"
            cmp "$1/c/epoch_2.safetensors" "$MARK/before"
            [ "$(ls -A "$1/c" | tr "\n" " ")" = "epoch_1.safetensors epoch_2.safetensors " ]
            '"$program"' 3 0 '"${few[*]}"' --num-samples 64 --resume "$1/c/epoch_2.safetensors" --checkpoint-dir "$MARK/c"'
        [ "$status" -eq 0 ]
        [ "$(grep -c "fatal: cannot write $scratch/disk/c/.*: No space left on device: make room, or" <<<"$output")" -eq 2 ]
    done
}

@test "a file may not grow so long (ulimit -f): as a full disk" {
    run timeout 300 sh -c "ulimit -f 100; 03_torchrun_env/run.sh 2 $short --checkpoint-dir '$scratch/c'"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"cannot write $scratch/c/epoch_1.safetensors: File too large"* ]]
    [ -z "$(ls -A "$scratch/c")" ]
}

@test "a full disk costs the metrics, not the training" {
    with_disk size=16k '01_single_gpu/run.sh 1 --model linear --batch-size 4 --metrics-dir "$1" --checkpoint-dir "$MARK/c"'
    [ "$status" -eq 0 ]
    [ "$(grep -c "warning: cannot write metrics from step [0-9]* on: No space left" <<<"$output")" -eq 1 ]
    [ -e "$scratch/c/linear_random.safetensors" ]
    with_disk nr_inodes=1 '01_single_gpu/run.sh 1 --model linear --metrics-dir "$1" --checkpoint-dir "$MARK/c"'
    [ "$status" -eq 2 ] # nothing can be written from the start
    [[ $output == *"No space left on device: name another with --metrics-dir"* ]]
    with_disk nr_inodes=1 '01_single_gpu/run.sh 1 --model linear --checkpoint-dir "$1"'
    [ "$status" -eq 2 ]
    [[ $output == *"No space left on device: name another with --checkpoint-dir"* ]]
    no_line ^Train
}

@test "what is refused leaves no folder" {
    fails_at_start 2 "No such file" 03_torchrun_env/run.sh 2 $short --resume "$scratch/none" \
        --checkpoint-dir "$scratch/c" --metrics-dir "$scratch/m"
    fails_at_start 2 "is missing" 01_single_gpu/run.sh $short --dataset mnist --data-dir "$scratch" \
        --checkpoint-dir "$scratch/c" --metrics-dir "$scratch/m"
    [ ! -e "$scratch/c" ]
    [ ! -e "$scratch/m" ]
}

@test "a resumed run warns once, however many ranks it has" {
    03_torchrun_env/run.sh 2 $short --checkpoint-dir "$scratch/c" >/dev/null
    run timeout 300 03_torchrun_env/run.sh 3 $short --seed 1 --checkpoint-dir "$scratch/d" \
        --resume "$scratch/c/cnn_mnist.safetensors"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c "was saved with seed 0, this run has 1" <<<"$output")" -eq 1 ]
    [ "$(grep -c "nothing left to do" <<<"$output")" -eq 1 ]
}

@test "memory: a huge batch of few rows fits, too many rows are refused in a line" {
    for sizes in "--batch-size 1000000" "--global-batch-size 2147483647"; do
        run timeout 300 sh -c "ulimit -v 8000000; 01_single_gpu/run.sh $digits $sizes --checkpoint-dir '$scratch/c'"
        echo "$output"
        [ "$status" -eq 0 ]
    done
    run timeout 300 sh -c "ulimit -v 8000000; 01_single_gpu/run.sh 1 --model linear --dataset-size 2147483647 --checkpoint-dir '$scratch/c'"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "${#lines[@]}" -eq 1 && $output == *"out of memory: "*" bytes wanted"* ]]
}
