# Shared by the tests of the launcher.

load "${BASH_SOURCE%/*}/../helpers/free_port" # from wherever the test is
load "${BASH_SOURCE%/*}/../helpers/cause"

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
    export OUT TMPDIR=$OUT/tmp
    mkdir "$TMPDIR"
    unset OMP_NUM_THREADS LOCAL_RANK CUDA_VISIBLE_DEVICES
}

# After every test: no temporary folder is left, and no process that carries this test's mark.
teardown() {
    await no_process_left || return 1
    [ -z "$(ls -A "$TMPDIR")" ] || { find "$TMPDIR" && return 1; }
}

no_process_left() {
    [ -z "$(left_over)" ]
}

# When a launcher is killed, its watcher removes its folder, a moment later.
swept() {
    [ -z "$(ls -A "$TMPDIR")" ]
}

# Processes started by workers of this test: OUT is unique, and in their environment.
left_over() {
    grep -lsz "^RANK=" /proc/[0-9]*/environ | xargs -r grep -lsxz "OUT=$OUT" | grep -v "/$$/" || true
}

has_secrets() {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts"
}

ddprun() {
    timeout 200 "${DDPRUN:-03_torchrun_env/ddprun}" "$@"
}

# usage_errors: reads lines with words of the message (_ stands for a space) and the arguments of ddprun that cause it.
usage_errors() {
    local wanted arguments
    while read -r wanted arguments; do
        # shellcheck disable=SC2086 # several words
        run -2 ddprun $arguments
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == "ddprun: "*"${wanted//_/ }"* ]] || { echo "$arguments: $output" && false; }
    done
}

# await COMMAND...: waits until it succeeds, for 100 s at most, which only a failing test takes.
await() {
    local end=$((SECONDS + 100))
    until "$@" > /dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { echo "in vain: $*" && return 1; }
        sleep 0.05
    done
}

# signalled SIGNAL SCRIPT: starts two ranks, with FLAGS, signals the launcher once both are up; its status and output, as
# of `run`. The launcher itself:
# timeout(1) in between would send the signal twice, or, where it has not had the processor since its
# fork, end without passing it on.
signalled() {
    local signal=$1
    shift
    "${DDPRUN:-03_torchrun_env/ddprun}" --nproc-per-node 2 $FLAGS sh -c "$1"' & touch $OUT/up_$RANK; wait' \
        > "$OUT/log" 2>&1 3>&- &
    local launcher=$!
    await test -e "$OUT/up_0" -a -e "$OUT/up_1"
    kill "-$signal" "$launcher"
    status=0
    wait "$launcher" || status=$?
    output=$(cat "$OUT/log")
}
