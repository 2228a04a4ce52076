# The launcher: how ranks end, what it answers then, and what it leaves behind.

bats_require_minimum_version 1.5.0
load ddprun_helper

@test "the launcher ends with the first failing rank's status" {
    local script='[ $RANK != 1 ] || exit 3; sleep 100'
    run -3 ddprun --nproc-per-node 2 sh -c "$script"
    run -137 ddprun --nproc-per-node 2 sh -c '[ $RANK != 1 ] || kill -KILL $$; exec sleep 100'
    run -0 ddprun --nproc-per-node 2 sh -c '[ $RANK = 1 ] || exit 0; sleep 0.3'
    run -7 ddprun --nproc-per-node 2 sh -c '[ $RANK = 1 ] || exit 0; sleep 0.2; exit 7'
}

@test "a wrong option is one line, the ranks' own, and status 2" {
    run -2 ddprun --nproc-per-node 2 03_torchrun_env/train --epohcs 2
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"did you mean --epochs?"* ]]
}

@test "a flag that is misspelt or cut short: the one that may be meant" {
    run -2 ddprun --nproc 2 true
    [ "$output" = "ddprun: unknown flag --nproc: did you mean --nproc-per-node? ddprun --help lists them all" ]
    run -2 ddprun --nnode=2 true
    [[ $output == *"unknown flag --nnode=2: did you mean --nnodes?"* ]]
    run -2 ddprun -log_dri x true
    [[ $output == *"unknown flag -log_dri: did you mean --log-dir?"* ]]
    run -2 ddprun --quux true
    [ "$output" = "ddprun: unknown flag --quux; ddprun --help lists them all" ]
}

@test "of two that end together, the one that was killed is the cause" {
    ddprun --nproc-per-node 2 sh -c '
        echo $PPID > $OUT/up_$RANK
        until [ -e "$OUT/go" ]; do sleep 0.02; done
        [ $RANK = 1 ] && kill -KILL $$; exit 1' > "$OUT/log" 2>&1 3>&- &
    until [ -s "$OUT/up_0" ] && [ -s "$OUT/up_1" ]; do sleep 0.02; done
    local launcher
    launcher=$(cat "$OUT/up_0")
    kill -STOP "$launcher"
    touch "$OUT/go"
    sleep 0.3
    kill -CONT "$launcher"
    status=0
    wait $! || status=$?
    [ "$status" -eq 137 ]
}

@test "a program that cannot be started: one line, as from a shell" {
    run -127 ddprun --nproc-per-node 2 "$OUT/nothing"
    [ "$output" = "ddprun: cannot start $OUT/nothing: No such file or directory" ]
    run -126 ddprun --nproc-per-node 2 tests/ddprun.bats
    [ "$output" = "ddprun: cannot start tests/ddprun.bats: Permission denied; it is not executable: see chmod +x" ]
    cd 03_torchrun_env
    DDPRUN=./ddprun run -127 ddprun --nproc-per-node 2 train
    [ "$output" = "ddprun: cannot start train: No such file or directory; it is here, but not in PATH: write ./ in front" ]
}

@test "75 from every rank is no failure" {
    run -75 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] || sleep 0.3; exit 75'
    [ -z "$output" ]
    run -75 ddprun --nproc-per-node 2 --shutdown-timeout 0.5 sh -c '[ $RANK = 0 ] && exit 75; sleep 100'
    [[ $output == *"rank    : 0 "*"exit status 75"* ]]
    run -75 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] && exit 75; exit 0'
    [[ $output == *FAILED* ]]
    run -4 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] && exit 75; sleep 0.2; exit 4'
}

@test "when one fails, the others and what they started are ended" {
    run -5 ddprun --nproc-per-node 3 sh -c '
        [ $RANK != 1 ] || { sleep 0.2; exit 5; }
        sleep 100 & wait'
    [ -z "$(left_over)" ]
}

@test "who ignores SIGTERM is killed after --shutdown-timeout" {
    SECONDS=0
    run -6 ddprun --nproc-per-node 2 --shutdown-timeout 1 sh -c '
        trap "" TERM
        [ $RANK != 0 ] || { sleep 0.2; exit 6; }
        sleep 100; sleep 100'
    [ "$SECONDS" -le 5 ]
    [[ $output == *"rank 1 "*"killed by SIGKILL"* ]]
}

@test "what a rank leaves behind is ended, but has time to end well" {
    run -0 ddprun sh -c '
        (trap "sleep 0.3; echo saved; exit" TERM; touch "$OUT/ready"; for _ in $(seq 99); do sleep 0.05; done) &
        until [ -e "$OUT/ready" ]; do sleep 0.02; done'
    [[ $output == *saved* ]]
    [ -z "$(left_over)" ]
}

@test "a launcher that is killed takes its ranks along" {
    03_torchrun_env/ddprun --nproc-per-node 2 sh -c 'touch $OUT/up_$RANK; exec sleep 100' 3>&- &
    local launcher=$!
    until [ -e "$OUT/up_0" ] && [ -e "$OUT/up_1" ]; do sleep 0.05; done
    kill -KILL "$launcher"
    wait "$launcher" || true
    for _ in $(seq 40); do
        [ -n "$(left_over)" ] || break
        sleep 0.05
    done
    [ -z "$(left_over)" ]
    find "$TMPDIR" -depth -type d -empty -delete # nobody was left to do it
    mkdir -p "$TMPDIR"
}

# signalled SIGNAL SCRIPT: starts two ranks, signals the launcher once both are up.
signalled() {
    local signal=$1
    shift
    timeout 30 03_torchrun_env/ddprun --nproc-per-node 2 sh -c "$1"' & touch $OUT/up_$RANK; wait' \
        > "$OUT/log" 2>&1 3>&- &
    local launcher=$!
    until [ -e "$OUT/up_0" ] && [ -e "$OUT/up_1" ]; do sleep 0.05; done
    kill "-$signal" "$launcher"
    status=0
    wait "$launcher" || status=$?
    output=$(cat "$OUT/log")
}

@test "signals are passed on; the launcher ends with 128 + signal" {
    signalled TERM 'sleep 100'
    [ "$status" -eq 143 ]
    [ "$output" = "ddprun: ended by SIGTERM" ]
    rm "$OUT"/up_*
    signalled HUP 'sleep 100'
    [ "$status" -eq 129 ]
}

@test "ranks that stop on request, all with 75, are no failure" {
    signalled TERM 'trap "exit 75" TERM; sleep 100'
    [ "$status" -eq 75 ]
    [ -z "$output" ]
}

@test "Ctrl-C passes on, a second one kills at once" {
    SECONDS=0
    run python3 - <<EOF
import os, signal, subprocess, time
child = subprocess.Popen(
    ["03_torchrun_env/ddprun", "sh", "-c", "trap 'touch \$OUT/got' INT; touch \$OUT/up_0; while :; do sleep 0.1; done"],
    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
def until(name):
    end = time.time() + 10
    while not os.path.exists("$OUT/" + name) and time.time() < end:
        time.sleep(0.02)
until("up_0")
child.send_signal(signal.SIGINT)
time.sleep(0.05)
child.send_signal(signal.SIGINT) # a wrapper's doubling
until("got")
time.sleep(0.4)
assert child.poll() is None
child.send_signal(signal.SIGINT)
print(child.wait(10))
EOF
    [ "${lines[-1]}" = 130 ]
    [ -e "$OUT/got" ]
    [ "$SECONDS" -le 8 ]
}

@test "the report names the first to fail, and what it had to say" {
    run -9 ddprun --nproc-per-node 3 --log-dir "$OUT/logs" -r 2:3 sh -c '
        case $RANK in
        0) sleep 0.3; exit 1 ;;
        1) exec sleep 100 ;;
        2) echo "{\"message\": {\"message\": \"ValueError: boom\", \"extraInfo\": {}}}" > $TORCHELASTIC_ERROR_FILE
           exit 9 ;;
        esac'
    [[ $output == *"sh FAILED"*"Root cause"*"node    : 0 $(uname -n)"*"rank    : 2 (local_rank: 2, pid: "* ]]
    [[ $output == *"ended   : exit status 9"*"message : ValueError: boom"* ]]
    [[ $output == *"log     : $OUT/logs/"*"/attempt_0/2/stderr.log"* ]]
    [[ $output == *"rank 0 (local_rank: 0, pid: "*": killed by SIGTERM, told to end by ddprun"* ]]
    [[ $output == *"rank 1 "* && $output != *"  rank 2 "* ]]
    run -139 ddprun sh -c 'echo nonsense > $TORCHELASTIC_ERROR_FILE; kill -SEGV $$'
    [[ $output == *"ended   : killed by SIGSEGV"* && $output != *nonsense* ]]
    run -1 ddprun sh -c 'printf "{\"mess" > $TORCHELASTIC_ERROR_FILE; exit 1' # told to end in mid-sentence
    [[ $output != *"logs are in"* ]]
}

@test "a trainer's last words are in the report, and in the error file as PyTorch reads it" {
    echo 'no checkpoint' >"$OUT/a\b\"c"
    train='[ $RANK = 0 ] || exec sleep 100
        exec 03_torchrun_env/train --model linear --checkpoint-dir $OUT/c --init-from "$OUT/a\b\"c"'
    run -1 ddprun sh -c "$train"
    words=$(echo "$output" | sed -n 's/.* fatal: //p' | head -n 1)
    [[ $words == *'a\b"c: is damaged or no safetensors file'* ]]
    [[ $output == *"  message : $words"* ]]
    run -1 ddprun --log-dir "$OUT/l" sh -c "$train"
    python3 - "$OUT"/l/*/attempt_0/0/error.json <<'EOF'
import json, sys, time
data = json.load(open(sys.argv[1]))
assert 'a\\b"c: is damaged' in data["message"], data
assert abs(time.time() - int(data["timestamp"])) < 60
EOF
}
