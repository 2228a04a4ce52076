# Shared by the tests of step 05: runs that are killed, and their expected results.

bats_require_minimum_version 1.5.0
load "${BASH_SOURCE%/*}/../helpers/cause" # from wherever the test is
load "${BASH_SOURCE%/*}/../helpers/free_port"
load "${BASH_SOURCE%/*}/../helpers/until_true"

RUN=05_fault_tolerance/run.sh

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return 1
    export OUT=$BATS_TEST_TMPDIR MAX_RESTARTS=0 # so a run that is killed stays down
    unset OMP_NUM_THREADS RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT LAUNCHER
    RANDOM=${SEED:=$RANDOM}
    echo "SEED=$SEED" # shown where a test fails
}

teardown() {
    until_true 100 no_process || { ps -fp "$(processes | paste -sd ,)" && kill -KILL $(processes) && false; }
}

# Programs that this test has started: OUT is unique, and in their environment, but not in grep's.
processes() {
    local mark="OUT=$OUT"
    (unset OUT && grep -lsxz "$mark" /proc/[0-9]*/environ) | cut -d / -f 3
}

no_process() {
    [ -z "$(processes)" ]
}

# undisturbed DIR RANKS OPTIONS...: a run without faults.
undisturbed() {
    run -0 timeout 400 $RUN "$2" "${@:3}" --checkpoint-dir "$1"
}

# disturbed DIR RANKS OPTIONS...: the same run, killed soon after each resume and restarted until it
# is done. Sets kills.
disturbed() {
    local dir=$1 status=1
    shift
    kills=0
    until [ "$status" -eq 0 ]; do
        [ "$kills" -lt 60 ]
        : >"$OUT/said" # not to be taken for this run's
        $RUN "$@" --checkpoint-dir "$dir" >"$OUT/said" 2>&1 3>&- &
        job=$!
        if [ "$kills" -lt "${MOST_KILLS:-8}" ]; then
            wait_for_snapshots "$dir" $((RANDOM % 4 + 1))
            sleep "0.0$((RANDOM % 90 + 10))"
            kill_one
        fi
        status=0
        wait $job || status=$?
        until_true 100 no_process
        [ "$status" -eq 0 ] || kills=$((kills + 1))
    done
    cat "$OUT/said"
    ! has_extras || [ -z "$(find "$dir" -name '*.tmp')" ] # extras/comfort sweeps what a killed run was writing
}

# Waits until N more snapshots have been saved, or the run has ended.
wait_for_snapshots() { # DIR COUNT
    local wanted=$2
    until_true 200 enough_snapshots "$wanted"
}

enough_snapshots() {
    [ "$(grep -c 'snapshot saved at' "$OUT/said")" -ge "$1" ] || ! kill -0 "$job" 2>/dev/null
}

# The ranks' processes, or that of one rank.
rank_pid() { # [RANK]
    for pid in $(processes); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != train ] ||
            ! grep -qsxz "RANK=${1:-[0-9]*}" "/proc/$pid/environ" || echo "$pid"
    done
}

# SIGKILL to one rank, or to all at once.
kill_one() {
    local ranks
    ranks=$(rank_pid)
    [ $((RANDOM % 2)) -eq 0 ] || ranks=$(shuf -n 1 <<<"$ranks")
    kill -KILL $ranks 2>/dev/null || true # they may have ended by themselves
}

# by_hand RANK OPTIONS...: one of two ranks, without a launcher; its output goes to $OUT/rankN. Adds
# to pids.
by_hand() {
    [ -n "${port:-}" ] || port=$(free_port)
    MASTER_ADDR=127.0.0.1 MASTER_PORT=$port RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=2 \
        timeout 300 05_fault_tolerance/train "${@:2}" >"$OUT/rank$1" 2>&1 3>&- &
    pids="${pids:-} $!"
}

# All ranks' mean losses, a line for each step, from --metrics-dir.
mean_losses() {
    jq -s 'group_by(.step)[] | map(.loss) | add / length' "$1"/rank*.jsonl
}

# Two columns agree within a tolerance, and are not empty.
agree() {
    paste "$1" "$2" | awk -v tolerance="$3" '
        NF != 2 || ($1 - $2) ^ 2 > tolerance ^ 2 { print "line " NR ": " $0; bad = 1 }
        END { exit bad || NR == 0 }'
}
