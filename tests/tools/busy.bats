#!/usr/bin/env bats
# bench/busy.py: its errors, and that none of its networks, its load and its ranks is left behind.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

needs_network() {
    [ "$(id -u)" -eq 0 ] || skip "it takes root to make network namespaces"
    command -v tc >/dev/null || skip "no tc here (iproute2)"
    mpirun --version 2>&1 | grep -q 'Open MPI' || skip "no Open MPI here, with which it compares"
    ip netns add "ddp$$try" || skip "no network namespaces here"
    ip netns delete "ddp$$try"
    ip link add "ddp$$try" type bridge || skip "no bridges between networks here"
    ip link delete "ddp$$try"
}

# left_over PID: the namespaces and links of that busy.py, and processes that have MARK in their environment.
left_over() {
    { ip netns list && ip -o link; } | grep -o "ddp$1[^ :@]*" || true
    (unset MARK && grep -lsxz "MARK=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ) || true
}

@test "words that it does not know, no turns, and a line that is none: status 2" {
    for words in --no-such-option "--turns 0" "--turns few" "--lines 1gbit,fast" "--lines 1gbps" "more"; do
        # shellcheck disable=SC2086 # several words
        run -2 bench/busy.py $words
        [[ $output == "usage: [LOAD=n] bench/busy.py "*"busy.py: error: "* ]]
    done
    run -0 bench/busy.py --help
    [[ $(tr -s " \n" " " <<<"$output") == *"Medians of the turns"* ]]
}

@test "without root one line says what a rate takes" {
    [ "$(id -u)" -eq 0 ] || skip "it takes root to become another user"
    run -1 setpriv --reuid 65534 --clear-groups env PYTHONDONTWRITEBYTECODE=1 python3 bench/busy.py --lines memory,1gbit
    [ "$output" = "busy.py: a line of a rate takes root, ip and tc (iproute2); --lines loopback,memory does not" ]
}

@test "a row has the rate, what a stream takes, both ways and the load" {
    needs_network
    run -0 --separate-stderr timeout 100 bench/busy.py --lines 1gbit --turns 1 --bytes 40000
    echo "$output"
    [ "${#lines[@]}" -eq 3 ]
    number='[0-9.]+'
    [[ ${lines[2]} =~ ^\|\ 1gbit\ \|\ 0\ \|\ $number\ \|\ $number\ \($number-$number\)\ \|\ $number\ \($number-$number\)\ \|\ ${number}x\ \|\ ${number}x\ \|\ $number\ to\ $number\ \|$ ]]
}

# run_busy OPTION...: in the background, with a load of one process or $load; its number is $job.
run_busy() {
    MARK=$BATS_TEST_TMPDIR LOAD=${load:-1} bench/busy.py --lines 1gbit "$@" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    job=$!
}

# ends STATUS: busy.py ends so, and nothing of it is left.
ends() {
    status=0
    wait $job || status=$?
    cat "$BATS_TEST_TMPDIR/out"
    [ "$status" -eq "$1" ]
    left=$(left_over $job)
    echo "left: $left"
    [ -z "$left" ]
}

@test "after an error of the ranks nothing is left" {
    needs_network
    load=2 run_busy --turns 1 --bytes 2 # no number has so few
    ends 1
    grep -q ': ended with status \[1, 1, 1, 1\]' "$BATS_TEST_TMPDIR/out"
}

# during PROGRAM: waits until busy.py has ranks of this program.
during() {
    for _ in $(seq 600); do
        for environ in $( (unset MARK && grep -lsxz "MARK=$BATS_TEST_TMPDIR" /proc/[0-9]*/environ) || true); do
            ! grep -qsx "$1" "${environ%environ}comm" || return 0
        done
        sleep 0.1
    done
    echo "no $1" && false
}

@test "after SIGTERM, during ours and during Open MPI's, nothing is left" {
    needs_network
    for program in collectives collectives_mpi; do
        run_busy --turns 1000 --bytes 40000
        during $program
        [[ $(left_over $job) == *"ddp${job}n3"* ]]
        kill -TERM $job
        ends 143
    done
}
