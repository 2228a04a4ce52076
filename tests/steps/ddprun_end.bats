# The launcher: how ranks end, its status then, and leftovers.

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
    [[ $output == *"--epohcs is no option: "* ]]
}

@test "a host's name that would steer the terminal is disarmed in the report" {
    unshare --user --map-root-user --uts true || skip "no namespaces here"
    run -1 unshare --user --map-root-user --uts python3 -c '
import os, socket, sys
socket.sethostname(b"alp\xc2\x9b2Jha\033[2J\n")
os.execvp(sys.argv[1], sys.argv[1:])' 03_torchrun_env/ddprun --nproc-per-node 2 false
    due='  node    : 0 alp??2Jha?[2J?'
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || due=' on node 0 (alp??2Jha?[2J?): '
    [[ $output == *"$due"* ]]
}

@test "a flag that there is not: one line, and status 2" {
    run -2 ddprun --nprocs 2 true
    [[ $output == "ddprun: unknown flag --nprocs"*"ddprun --help lists them all" ]]
    run -2 ddprun --quux true
    [ "$output" = "ddprun: unknown flag --quux; ddprun --help lists them all" ]
}

is_zombie() {
    grep -q '^State:.Z' "/proc/$1/status"
}

@test "of two that end together, the one that was killed is the cause" {
    ddprun --nproc-per-node 2 sh -c '
        echo $PPID $$ > $OUT/up_$RANK
        until [ -e "$OUT/go" ]; do sleep 0.02; done
        [ $RANK = 1 ] && kill -KILL $$; exit 1' > "$OUT/log" 2>&1 3>&- &
    local job=$! launcher rank_0 rank_1
    await test -s "$OUT/up_0" -a -s "$OUT/up_1"
    read -r launcher rank_0 <"$OUT/up_0"
    read -r _ rank_1 <"$OUT/up_1"
    kill -STOP "$launcher"
    touch "$OUT/go"
    await is_zombie "$rank_0" # neither has been looked at yet
    await is_zombie "$rank_1"
    kill -CONT "$launcher"
    status=0
    wait $job || status=$?
    [ "$status" -eq 137 ]
}

@test "a program that cannot be started: one line, as from a shell" {
    run -127 ddprun --nproc-per-node 2 "$OUT/nothing"
    [ "$output" = "ddprun: cannot start $OUT/nothing: No such file or directory" ]
    printf '#!/bin/sh\necho shell\n' >"$OUT/script"
    cp 03_torchrun_env/train "$OUT/program"
    chmod -x "$OUT/program"
    for program in script program; do
        run -126 ddprun --nproc-per-node 2 "$OUT/$program"
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == "ddprun: cannot start $OUT/$program: Permission denied"* ]]
    done
    run -127 ddprun ''
    [ "$output" = "ddprun: cannot start : No such file or directory" ]
}

@test "nobody reads what the ranks print (as of | head): one line" {
    { status=0; ddprun --nproc-per-node 2 yes 2>"$OUT/err" || status=$?; echo $status >"$OUT/status"; } |
        head -n 1
    [ "$(cat "$OUT/status")" -eq 141 ]
    [ "$(wc -l <"$OUT/err")" -eq 1 ]
    grep -q "^ddprun: rank [01] on node 0 .* was killed by SIGPIPE: its output goes to a program that has ended" "$OUT/err"
}

@test "SIGPIPE from a pipe of the rank's own is a failure like any other" {
    run -141 ddprun sh -c 'kill -PIPE $$'
    [[ $(cause <<< "$output") == "rank 0 on node 0 "*": killed by SIGPIPE" ]]
    [[ $output != *"its output goes to"* ]]
}

@test "75 from every rank is no failure" {
    run -75 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] || sleep 0.3; exit 75'
    [ -z "$output" ]
    run -75 ddprun --nproc-per-node 2 --shutdown-timeout 0.5 sh -c '[ $RANK = 0 ] && exit 75; sleep 100'
    [[ $(cause <<< "$output") == "rank 0 on node 0 "*": exit status 75" ]]
    run -75 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] && exit 75; exit 0'
    [[ $(cause <<< "$output") == "rank 0 on node 0 "*": exit status 75" ]]
    run -4 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] && exit 75; sleep 0.2; exit 4'
}

@test "when one fails, the others and what they started are ended" {
    run -5 ddprun --nproc-per-node 3 sh -c '
        [ $RANK != 1 ] || { sleep 0.2; exit 5; }
        sleep 100 & wait'
    [ -z "$(left_over)" ]
}

@test "who ignores SIGTERM is killed after --shutdown-timeout" {
    run -6 ddprun --nproc-per-node 2 --shutdown-timeout 1 sh -c '
        trap "" TERM
        [ $RANK = 0 ] || touch "$OUT/ignores"
        until [ -e "$OUT/ignores" ]; do sleep 0.02; done
        [ $RANK != 0 ] || { date +%s >"$OUT/failed"; exit 6; }
        sleep 1000; sleep 1000'
    [ $(($(date +%s) - $(cat "$OUT/failed"))) -le 25 ] # not the 30 s that it has where nothing is said
    ! has_extras || [[ $output == *"rank 1 "*"killed by SIGKILL"* ]]
}

@test "what a rank leaves behind is ended, but has time to end well" {
    run -0 ddprun sh -c '
        (trap "sleep 0.3; echo saved; exit" TERM; touch "$OUT/ready"; for _ in $(seq 2000); do sleep 0.05; done) &
        until [ -e "$OUT/ready" ]; do sleep 0.02; done'
    [[ $output == *saved* ]]
    [ -z "$(left_over)" ]
}

@test "a launcher that is killed takes its ranks along" {
    03_torchrun_env/ddprun --nproc-per-node 2 sh -c 'touch $OUT/up_$RANK; exec sleep 1000' 3>&- &
    local launcher=$!
    await test -e "$OUT/up_0" -a -e "$OUT/up_1"
    kill -KILL "$launcher"
    wait "$launcher" || true
    await no_process_left
    await swept
}

@test "a launcher killed by what it has just started takes that along, too" {
    for _ in $(seq 8); do
        03_torchrun_env/ddprun --nproc-per-node 1 sh -c 'kill -KILL $PPID; sleep 1000' >/dev/null 2>&1 3>&- ||
            [ $? -eq 137 ]
    done
    await no_process_left
    await swept
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

@test "SIGHUP, SIGALRM, SIGUSR2 and SIGXCPU end a job, too: the ranks get SIGHUP or SIGTERM, and have time to save" {
    for signal in HUP ALRM USR2 XCPU; do
        signalled $signal 'trap "exit 75" HUP TERM; sleep 100'
        [ "$status" -eq 75 ]
        [ -z "$output" ]
        rm "$OUT"/up_*
    done
    signalled ALRM 'sleep 100'
    [ "$status" -eq 142 ]
    [ "$output" = "ddprun: ended by SIGALRM" ]
}

# As timeout(1) asks, which sends each signal to its child and then to its group: the second may come
# when the ranks have ended, and the launcher is about to.
@test "asked to end again and again, it ends as if it had been asked once" {
    for ddprun in 03_torchrun_env/ddprun 05_fault_tolerance/ddprun; do
        $ddprun --nproc-per-node 2 sh -c 'trap "exit 75" TERM; sleep 100 & touch $OUT/up_$RANK; wait' \
            > "$OUT/log" 2>&1 3>&- &
        local launcher=$!
        await test -e "$OUT/up_0" -a -e "$OUT/up_1"
        while kill -TERM "$launcher" 2> /dev/null; do :; done # at every moment until it is gone
        status=0
        wait "$launcher" || status=$?
        [ "$status" -eq 75 ]
        [ ! -s "$OUT/log" ]
        rm "$OUT"/up_*
    done
}

@test "Ctrl-C passes on, a second one kills at once" {
    run -0 python3 - <<EOF
import os, signal, subprocess, time
def until(name):
    end = time.monotonic() + 100
    while not os.path.exists("$OUT/" + name) and child.poll() is None:
        assert time.monotonic() < end, name
        time.sleep(0.02)
def press():
    global child
    child = subprocess.Popen(
        ["03_torchrun_env/ddprun", "--shutdown-timeout", "300", "sh", "-c",
         "trap 'touch \$OUT/got' INT; touch \$OUT/up_0; while :; do sleep 0.1; done"],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    until("up_0")
    child.send_signal(signal.SIGINT)
    time.sleep(0.05)
    child.send_signal(signal.SIGINT) # a wrapper's doubling
    until("got")
    time.sleep(0.4)
    goes_on = child.poll() is None
    child.send_signal(signal.SIGINT)
    assert child.wait(100) == 130
    for name in os.listdir("$OUT"):
        if name in ("up_0", "got"):
            os.remove("$OUT/" + name)
    return goes_on
# On a busy machine the two signals may be more than 0.3 s apart. ddprun then takes them for two requests, and
# may kill the rank before it has made "got".
assert any(press() for _ in range(5))
EOF
}

@test "an error file that is none: the rank's end is all there is to say" {
    run -139 ddprun sh -c 'echo nonsense > $TORCHELASTIC_ERROR_FILE; kill -SEGV $$'
    [[ $(cause <<< "$output") == *": killed by SIGSEGV" && $output != *nonsense* ]]
    rm -r "${output##*logs are in }" # which have a file that no rank of ours has written
    run -1 ddprun sh -c 'printf "{\"mess" > $TORCHELASTIC_ERROR_FILE; exit 1' # told to end in mid-sentence
    [[ $output != *"logs are in"* ]]
}

@test "a trainer's last words are in the report, and in the error file as PyTorch reads it" {
    mkdir "$OUT/a\b\"c"
    echo 'no pictures' >"$OUT/a\b\"c/train-images-idx3-ubyte"
    train='[ $RANK = 0 ] || exec sleep 100
        exec 03_torchrun_env/train --checkpoint-dir $OUT/c --dataset mnist --data-dir "$OUT/a\b\"c"'
    run -1 ddprun sh -c "$train"
    words=$(echo "$output" | sed -n 's/.* fatal: //p' | head -n 1)
    [[ $words == *'a\b"c/train-images-idx3-ubyte '* ]]
    [[ $(cause <<< "$output") == *": exit status 1: $words" ]]
    run -1 ddprun --log-dir "$OUT/l" sh -c "$train"
    python3 - "$OUT"/l/*/attempt_0/0/error.json <<'EOF'
import json, sys, time
data = json.load(open(sys.argv[1]))
assert 'a\\b"c/train-images' in data["message"], data
assert abs(time.time() - int(data["timestamp"])) < 600
EOF
}
