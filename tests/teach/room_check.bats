#!/usr/bin/env bats
# make room-check: one line, and its messages on machines that are not ready. Some programs are simulated.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    bin=$BATS_TEST_TMPDIR/bin
    mkdir "$bin"
    script make '[ "$*" = "-s -j $(nproc) all" ] || exit 9' # all is built
    script gnuplot 'echo gnuplot 5.4'
    export PORTS=29581
}

# script NAME TEXT: a program of the simulated machine.
script() {
    printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
    chmod +x "$bin/$1"
}

# says STATUS LINE: the check prints this line and nothing else.
says() {
    run env PATH="$bin:$PATH" teach/room_check.sh
    echo "$output"
    [ "$status" -eq "$1" ]
    [[ $output == $2 ]]
    [ "${#lines[@]}" -eq 1 ]
}

# timeout starts each step: here it does this to step 03, and the others, or all, print what they have printed above.
step_03() { # [COMMANDS]
    local said='echo "Train Epoch: 0 [640/1437] Loss: 2.2236"'
    script timeout 'shift; case "$*" in 03_*) '"${1:-$said}"' ;; *) '"$said"' ;; esac'
}

@test "ready: one line, with what the machine has" {
    script nproc 'echo 4'
    says 0 'ready: 5 of 5 steps, 2 ranks, 4 cores, *GPU*'
    step_03
    script nproc 'echo 1'
    says 0 'ready: 5 of 5 steps, 2 ranks, 1 core, *GPU*'
}

@test "not ready: a part is missing, no room, no folder" {
    step_03
    script gnuplot 'echo cannot open shared object file >&2; exit 1'
    says 1 "not ready: gnuplot draws no PNG, cannot open shared object file: install *"
    script cc 'text=$(cat); case $text in *zlib.h*) exit 1 ;; esac'
    says 1 "not ready: zlib is missing (no data set can be unpacked): type ./setup.sh"
    rm "$bin/cc"
    script df 'printf "head\n/dev/x 1 1 20480 1 /\n"'
    says 1 "not ready: $PWD has 20 MB left, and 300 are needed: make room there"
    rm "$bin/df"
    export TMPDIR=/nowhere
    says 1 "not ready: no folder can be made in /nowhere: *"
}

@test "not ready: a port of the chapters is taken" {
    python3 -c 'import socket, time
listener = socket.create_server(("127.0.0.1", 29581))
print("listens", flush=True)
time.sleep(60)' >"$BATS_TEST_TMPDIR/listens" 3>&- &
    until [ -s "$BATS_TEST_TMPDIR/listens" ]; do sleep 0.1; done
    says 1 "not ready: port 29581: Address already in use: end what uses it *"
    kill $!
}

@test "not ready: the build fails, a step fails, hangs, computes something else" {
    script make 'echo "a.c:1:2: error: no such thing"; echo "make: *** [a.o] Error 1"; exit 2'
    says 1 "not ready: the build failed, a.c:1:2: error: no such thing: show this line to the instructor"
    script make ''
    step_03 'echo "[rank 0/2] fatal: rank 1 of 2 did not come"; exit 1'
    says 1 "not ready: step 03 failed, [[]rank 0/2] fatal: rank 1 of 2 did not come: show this line to the instructor"
    step_03 'exit 124'
    says 1 "not ready: step 03 is not done after 120 s: end what else *"
    step_03 '"$@" | sed s/Loss:.*/Loss:\ 2.3/'
    says 1 "not ready: step 03 has the loss 2.3 and step 01 2.223*: type make clean, then make room-check"
    script timeout 'shift; exec "$@" --model linear'
    says 1 "not ready: step 01 does not train on the digits: is config.yaml as it came? *"
}
