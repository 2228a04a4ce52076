# Shared by the tests of faults: ranks started by hand, and checks for leftovers.

bats_require_minimum_version 1.5.0
load ../helpers/cause
load ../helpers/free_port
load ../helpers/scaled_timeout
load ../helpers/until_true

TRAIN=03_torchrun_env/train
DDPRUN=03_torchrun_env/ddprun
LINEAR="--model linear --dataset-size 64 --save-every 0 --threads 1"

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
    export OUT TMPDIR=$OUT/tmp
    mkdir "$TMPDIR"
    unset OMP_NUM_THREADS RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
}

# After every test: no process is left, no half-written file, no temporary folder.
teardown() {
    await_no_process || { ps -fp "$(left_over | paste -sd ,)" && kill -KILL $(left_over) && false; } &&
        [ -z "$(find "$OUT" -name '*.tmp')" ] &&
        [ -z "$(ls -A "$TMPDIR")" ]
}

# Programs that this test has started: OUT is unique, and in their environment, but not in grep's.
left_over() {
    local mark="OUT=$OUT"
    (unset OUT && grep -lsxz "$mark" /proc/[0-9]*/environ) | while IFS=/ read -r _ _ pid _; do
        echo "$pid"
    done
}

# Waits until they have gone: the kernel needs a moment.
await_no_process() {
    until_true 60 none_left
}

none_left() {
    [ -z "$(left_over)" ]
}

has_line() {
    grep -qs -- "$1" "$2"
}

# start_rank NAME RANK WORLD_SIZE [VARIABLE=VALUE ...] [-- OPTIONS]: a rank as from a shell loop, in
# the background. Its output goes to $OUT/NAME, its status to $OUT/NAME.status when it has ended.
start_rank() {
    local name=$1 rank=$2 world_size=$3 variables=()
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    rank_to_end "$name" timeout -k 5 240 env MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
        RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$world_size" "${variables[@]}" \
        "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/$name.d" "$@" 3>&- &
}

rank_to_end() {
    local name=$1 begin=$SECONDS status=0
    shift
    "$@" >"$OUT/$name" 2>&1 || status=$?
    echo "$((SECONDS - begin))" >"$OUT/$name.seconds"
    echo "$status" >"$OUT/$name.status"
}

# ended NAME STATUS TEXT: a rank ended with this status and one line on standard error; after 5 s it may also have
# reported which rank it waits for.
ended() {
    local said
    until_true 250 test -s "$OUT/$1.status"
    said=$(grep '^\[rank\|^train:' "$OUT/$1" | grep -v '\] waits for ' || true)
    [ "$(cat "$OUT/$1.status")" -eq "$2" ] && [[ $said == *"$3"* ]] &&
        [ "$(echo "$said" | wc -l)" -eq 1 ] && return
    echo "$1 ended with $(cat "$OUT/$1.status") and said: $said" && return 1
}

# sockets PORT STATE: those of this port that are in it, 0A (listening) or 01 (connected), a line each.
sockets() {
    grep -Ehs "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F:]+ $2 " /proc/net/tcp /proc/net/tcp6
}

# Succeeds if a process listens on this port.
listens() {
    [ -n "$(sockets "$1" 0A)" ]
}

# For jobs that only a signal ends, and never a timeout of their own.
ENDLESS="1000000000 $LINEAR --timeout 300 --checkpoint-dir"

# The number of a signal.
number() {
    kill -l "$1"
}

# Starts a job in the background with the usual signals, as from a terminal: a shell's "&" has SIGINT
# ignored, and nohup, under which the tests may run, SIGHUP. Sets job, its process.
start_job() {
    rm -f "$OUT/said" # the job before this one's
    python3 -c 'import os, signal, sys
for number in signal.SIGINT, signal.SIGHUP:
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@" >"$OUT/said" 2>&1 3>&- &
    job=$!
    for rank in 0 1; do
        until_true 200 has_line "^\[CPU$rank\] Epoch 3 " "$OUT/said"
    done
}

# job_ends STATUS: the job ends long before any timeout (of 300 s), and no process is left.
job_ends() {
    local status=0
    SECONDS=0
    wait "$job" || status=$?
    [ "$status" -eq "$1" ] || { echo "status $status, not $1: $(grep -v Epoch "$OUT/said")" && return 1; }
    [ "$SECONDS" -le 120 ]
    await_no_process
    [ -z "$(find "$OUT" -name '*.tmp')" ]
}
