# The launcher: what it tells the ranks, how it ends them, what it answers, and what it leaves behind.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/.."
    OUT=$BATS_TEST_TMPDIR
    export OUT TMPDIR=$OUT/tmp
    mkdir "$TMPDIR"
    unset OMP_NUM_THREADS LOCAL_RANK CUDA_VISIBLE_DEVICES
}

# Whatever a test does: no temporary folder stays, and no process that carries this test's mark.
teardown() {
    [ -z "$(ls -A "$TMPDIR")" ]
    [ -z "$(left_over)" ]
}

# Processes started by workers of this test: OUT is unique, and in their environment.
left_over() {
    grep -lsz "^RANK=" /proc/[0-9]*/environ | xargs -r grep -lsxz "OUT=$OUT" | grep -v "/$$/" || true
}

ddprun() {
    timeout 30 03_torchrun_env/ddprun "$@"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# two_nodes RANKS0 RANKS1 ARGUMENTS...: status and output of node N to status_N and $OUT/node_N.
two_nodes() {
    local port ranks_0=$1 ranks_1=$2
    port=$(free_port)
    shift 2
    ddprun --nnodes 2 --node-rank 1 --master-port "$port" --nproc-per-node "$ranks_1" "$@" \
        > "$OUT/node_1" 2>&1 3>&- &
    status_0=0 status_1=0
    ddprun --nnodes 2 --node-rank 0 --master-port "$port" --nproc-per-node "$ranks_0" "$@" \
        > "$OUT/node_0" 2>&1 || status_0=$?
    wait $! || status_1=$?
}

# --- what the ranks are told ---

@test "a rank finds torchrun's whole environment" {
    run ddprun --role trainer --rdzv-id job7 --master-port "$(free_port)" \
        sh -c 'env | grep -E "^(RANK|LOCAL_|WORLD_|GROUP_|ROLE_|MASTER_|TORCH|OMP)" |
               sed "s/^MASTER_PORT=[0-9]*$/MASTER_PORT=N/; s/job7_.*att/job7_X\/att/" | sort'
    [ "$status" -eq 0 ]
    diff - <(echo "$output" | grep -v '^OMP_NUM_THREADS=[1-9][0-9]*$') <<EOF
GROUP_RANK=0
GROUP_WORLD_SIZE=1
LOCAL_RANK=0
LOCAL_WORLD_SIZE=1
MASTER_ADDR=127.0.0.1
MASTER_PORT=N
RANK=0
ROLE_NAME=trainer
ROLE_RANK=0
ROLE_WORLD_SIZE=1
TORCHELASTIC_ERROR_FILE=$TMPDIR/job7_X/attempt_0/0/error.json
TORCHELASTIC_MAX_RESTARTS=0
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_RUN_ID=job7
TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT
TORCHELASTIC_USE_AGENT_STORE=True
TORCH_NCCL_ASYNC_ERROR_HANDLING=1
WORLD_SIZE=1
EOF
}

@test "three ranks are told apart" {
    run ddprun --nproc-per-node 3 sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE \
        $ROLE_RANK/$ROLE_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $(basename "$(dirname "$TORCHELASTIC_ERROR_FILE")")'
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | sort)" = "0/3 0/3 0/3 0/1 0
1/3 1/3 1/3 0/1 1
2/3 2/3 2/3 0/1 2" ]
}

@test "threads: the cores are shared out, unless OMP_NUM_THREADS is set" {
    [ "$(taskset -c 0 timeout 30 03_torchrun_env/ddprun sh -c 'echo $OMP_NUM_THREADS')" = 1 ]
    [ "$(OMP_NUM_THREADS=7 ddprun sh -c 'echo $OMP_NUM_THREADS')" = 7 ]
    [ "$(ddprun --nproc-per-node 4 sh -c 'echo $OMP_NUM_THREADS' | sort -u | wc -l)" = 1 ]
}

@test "arguments arrive as they were typed" {
    run ddprun -- printf '<%s>' 'a b' "it's" '' '"' '$HOME' '*' --nproc-per-node -t
    [ "$status" -eq 0 ]
    [ "$output" = "<a b><it's><><\"><\$HOME><*><--nproc-per-node><-t>" ]
}

@test "flags: both spellings, with = or without, the last one counts; variables stand in" {
    local count='echo $WORLD_SIZE'
    [ "$(ddprun --nproc-per-node 2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(ddprun --nproc_per_node=2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(ddprun --nproc-per_node 4 --nproc-per-node=2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(PET_NPROC_PER_NODE=2 ddprun sh -c "$count" | wc -l)" = 2 ]
    [ "$(PET_NPROC_PER_NODE=2 ddprun --nproc-per-node 3 sh -c "$count" | wc -l)" = 3 ]
    [ "$(PET_NNODES=1:1 PET_ROLE=r ddprun sh -c 'echo $ROLE_NAME')" = r ]
    [ "$(ddprun --standalone --max-restarts 0 --monitor-interval 1 --start-method spawn \
        --event-log-handler=null --rdzv-conf timeout=60 --rdzv-backend c10d \
        --rdzv-endpoint localhost:0 --local-addr x --nnodes=1:1 sh -c "$count")" = 1 ]
}

@test "the number of ranks: cpu counts cores, auto too where there are no GPUs" {
    local count='echo $WORLD_SIZE'
    [ "$(taskset -c 0 timeout 30 03_torchrun_env/ddprun --nproc-per-node cpu sh -c "$count")" = 1 ]
    [ "$(CUDA_VISIBLE_DEVICES= taskset -c 0 timeout 30 03_torchrun_env/ddprun \
        --nproc-per-node auto sh -c "$count")" = 1 ]
}

@test "Python files and modules run unbuffered under python3; --no-python starts them as they are" {
    printf '#!/bin/sh\necho shell\n' > "$OUT/p.py"
    chmod +x "$OUT/p.py"
    [ "$(ddprun --no-python "$OUT/p.py")" = shell ]
    echo 'import sys; print("python", sys.stdout.write_through, sys.argv[1:])' > "$OUT/p.py"
    [ "$(ddprun "$OUT/p.py" a 'b c')" = "python True ['a', 'b c']" ]
    [ "$(PYTHONPATH=$OUT ddprun -m p x)" = "python True ['x']" ]
}

@test "--pass-local-rank puts --local-rank before the arguments" {
    run ddprun --nproc-per-node 2 --pass-local-rank echo a
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | sort)" = "--local-rank=0 a
--local-rank=1 a" ]
}

@test "the store is served before the first rank starts" {
    run ddprun python3 -c '
import os, socket, struct
s = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
s.sendall(struct.pack("<BIBI", 0, 0x3C85F7CE, 13, 4711))
print(struct.unpack("<I", s.recv(4))[0])'
    [ "$output" = 4711 ]
}

@test "only local rank 0 has the launcher's standard input" {
    [ "$(echo hello | ddprun --nproc-per-node 2 sh -c 'echo $RANK $(cat)' | sort)" = "0 hello
1" ]
}

# --- exit statuses, and the end of a group ---

@test "the launcher ends with the first failing rank's status" {
    local script='[ $RANK != 1 ] || exit 3; sleep 100'
    run -3 ddprun --nproc-per-node 2 sh -c "$script"
    run -137 ddprun --nproc-per-node 2 sh -c '[ $RANK != 1 ] || kill -KILL $$; exec sleep 100'
    run -0 ddprun --nproc-per-node 2 sh -c '[ $RANK = 1 ] || exit 0; sleep 0.3'
    run -7 ddprun --nproc-per-node 2 sh -c '[ $RANK = 1 ] || exit 0; sleep 0.2; exit 7'
}

@test "a program that cannot be started: one line, as from a shell" {
    run -127 ddprun --nproc-per-node 2 "$OUT/nothing"
    [ "$output" = "ddprun: cannot start $OUT/nothing: No such file or directory" ]
    run -126 ddprun --nproc-per-node 2 tests/ddprun.bats
    [ "$output" = "ddprun: cannot start tests/ddprun.bats: Permission denied" ]
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
        (trap "sleep 0.3; echo saved; exit" TERM; touch "$OUT/ready"; while :; do sleep 0.05; done) &
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

# --- the report ---

@test "the report names the first to fail, and what it had to say" {
    run -9 ddprun --nproc-per-node 3 --log-dir "$OUT/logs" -r 2:3 sh -c '
        case $RANK in
        0) sleep 0.3; exit 1 ;;
        1) exec sleep 100 ;;
        2) echo "{\"message\": {\"message\": \"ValueError: boom\", \"extraInfo\": {}}}" > $TORCHELASTIC_ERROR_FILE
           exit 9 ;;
        esac'
    [[ $output == *"sh FAILED"*"Root cause"*"node    : 0 $(hostname)"*"rank    : 2 (local_rank: 2, pid: "* ]]
    [[ $output == *"ended   : exit status 9"*"message : ValueError: boom"* ]]
    [[ $output == *"log     : $OUT/logs/"*"/attempt_0/2/stderr.log"* ]]
    [[ $output == *"rank 0 (local_rank: 0, pid: "*": killed by SIGTERM, told to end by ddprun"* ]]
    [[ $output == *"rank 1 "* && $output != *"  rank 2 "* ]]
    run -139 ddprun sh -c 'echo nonsense > $TORCHELASTIC_ERROR_FILE; kill -SEGV $$'
    [[ $output == *"ended   : killed by SIGSEGV"* && $output != *nonsense* ]]
    rm -r "$TMPDIR"/* # an error file was written: it stays
}

# --- logs ---

@test "-r and -t, by rank: to files, to both" {
    run -0 --separate-stderr ddprun --nproc-per-node 2 --rdzv-id id --log-dir "$OUT/l" -r 0:1,1:2 -t 1:1 \
        sh -c 'echo out $RANK; echo err $RANK >&2'
    [ "$output" = "[default1]:out 1" ]
    [ "$stderr" = "err 0" ]
    run -0 sh -c 'cd $OUT/l/id_????????/attempt_0 && grep -r . | sort'
    [ "$output" = "0/stdout.log:out 0
1/stderr.log:err 1
1/stdout.log:out 1" ]
}

@test "the console: --local-ranks-filter, --log-line-prefix-template" {
    [ "$(ddprun --nproc-per-node 3 --local-ranks-filter 0,2 sh -c 'echo $RANK' | sort)" = "0
2" ]
    run -0 ddprun --nproc-per-node 2 --log-dir "$OUT/l" -t 3 --local-ranks-filter=1 --role r \
        --log-line-prefix-template '${role_name} ${rank} ${local_rank} ${hostname} ${x}> ' echo hi
    [ "$output" = "r 1 1 $(hostname) \${x}> hi" ]
    [ "$(cat "$OUT"/l/*/attempt_0/0/stdout.log)" = hi ]
}

@test "tee: whole lines, half a line of a rank that is killed, endless lines in pieces" {
    run -137 --separate-stderr ddprun --log-dir "$OUT/l" --tee 1 sh -c 'echo one; printf two; kill -9 $$'
    [ "$output" = "[default0]:one
[default0]:two" ]
    run -0 ddprun --nproc-per-node 2 --log-dir "$OUT/m" -t 1 sh -c \
        'head -c 200000 /dev/zero | tr "\0" x; echo; seq 20000'
    for rank in 0 1; do
        diff <(seq 20000) <(echo "$output" | sed -n "s/^\[default$rank\]://p" | grep -v x)
        [ "$(echo "$output" | grep "^\[default$rank\]:x" | tr -cd x | wc -c)" = 200000 ]
        [ "$(wc -c < "$(echo "$OUT"/m/*/attempt_0/$rank/stdout.log)")" = "$((200001 + $(seq 20000 | wc -c)))" ]
    done
}

@test "a console that is gone does not end the job" {
    ddprun --log-dir "$OUT/l" -t 1 sh -c 'seq 100000; touch $OUT/end' | head -n 1
    [ -e "$OUT/end" ]
    [ "$(tail -n 1 "$OUT"/l/*/attempt_0/0/stdout.log)" = 100000 ]
}

@test "without --log-dir, the log folder is named and stays" {
    run -0 ddprun -r 1 echo hi
    [[ $output == "ddprun: logs are in $TMPDIR/"* ]]
    [ "$(cat "${output#*are in }"/attempt_0/0/stdout.log)" = hi ]
    rm -r "${output#*are in }"
}

# --- several nodes ---

@test "two nodes with different numbers of ranks" {
    two_nodes 1 2 sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE \
        $ROLE_RANK/$ROLE_WORLD_SIZE $TORCHELASTIC_RUN_ID'
    [ "$status_0 $status_1" = "0 0" ]
    [ "$(cat "$OUT/node_0")" = "0/3 0/1 0/2 0/3 none" ]
    [ "$(sort "$OUT/node_1")" = "1/3 0/2 1/2 1/3 none
2/3 1/2 1/2 2/3 none" ]
}

@test "nodes with different roles" {
    local port
    port=$(free_port)
    ddprun --nnodes 2 --node-rank 1 --master-port "$port" --role b --nproc-per-node 2 \
        sh -c 'echo $ROLE_NAME $RANK $ROLE_RANK/$ROLE_WORLD_SIZE' > "$OUT/node_1" 3>&- &
    run -0 ddprun --nnodes 2 --rdzv-backend static --rdzv-endpoint "127.0.0.1:$port" --role a \
        sh -c 'echo $ROLE_NAME $RANK $ROLE_RANK/$ROLE_WORLD_SIZE'
    wait $!
    [ "$output" = "a 0 0/1" ]
    [ "$(sort "$OUT/node_1")" = "b 1 0/2
b 2 1/2" ]
}

@test "a failure on node 1 ends node 0, which names it and has its status" {
    SECONDS=0
    two_nodes 2 1 sh -c '[ $RANK != 2 ] || { sleep 0.2; exit 7; }; [ $RANK = 0 ] || exec sleep 100'
    [ "$SECONDS" -le 5 ]
    [ "$status_0 $status_1" = "7 7" ]
    grep -q 'node    : 1 ' "$OUT/node_0"
    grep -q 'rank    : 2 (local_rank: 0' "$OUT/node_0"
    grep -q 'exit status 7' "$OUT/node_0"
    grep -q 'rank 0 .*: exit status 0' "$OUT/node_0"
    grep -q 'rank 1 .*: killed by SIGTERM' "$OUT/node_0"
}

@test "a program that is missing on node 1 ends node 0 too" {
    two_nodes 1 1 sh -c 'exit 0' # both fine
    [ "$status_0 $status_1" = "0 0" ]
    local port
    port=$(free_port)
    ddprun --nnodes 2 --node-rank 1 --master-port "$port" "$OUT/nothing" > "$OUT/node_1" 2>&1 3>&- &
    run -127 ddprun --nnodes 2 --node-rank 0 --master-port "$port" sleep 100
    wait $! || [ $? -eq 127 ]
    [[ $output == *"cannot start $OUT/nothing"* ]]
    [ "$(wc -l < "$OUT/node_1")" -eq 1 ]
}

@test "75 from the ranks of all nodes; a node that ends early waits for the other" {
    SECONDS=0
    two_nodes 1 1 sh -c '[ $RANK = 0 ] || sleep 1; exit 75'
    [ "$status_0 $status_1" = "75 75" ]
    [ "$SECONDS" -ge 1 ]
    [ -z "$(cat "$OUT/node_0" "$OUT/node_1")" ]
}

@test "a launcher that is killed is missed by the other node, whichever it is" {
    for victim in 0 1; do
        local port other=$((1 - victim))
        port=$(free_port)
        rm -f "$OUT"/up_*
        flags="--nnodes 2 --master-port $port --rdzv-conf keep_alive_interval=0.2,keep_alive_max_attempt=3"
        03_torchrun_env/ddprun $flags --node-rank $victim sh -c 'touch $OUT/up_$RANK; exec sleep 100' 3>&- &
        local pid=$!
        ddprun $flags --node-rank $other sh -c 'touch $OUT/up_$RANK; exec sleep 100' > "$OUT/log" 2>&1 3>&- &
        local watched=$!
        until [ -e "$OUT/up_0" ] && [ -e "$OUT/up_1" ]; do sleep 0.05; done
        kill -KILL $pid
        wait $pid || true
        status=0
        wait $watched || status=$?
        [ "$status" -eq 1 ]
        grep -q "node    : $victim" "$OUT/log"
        grep -Eq "node $victim (is out of reach|has not been heard of)" "$OUT/log"
        find "$TMPDIR" -mindepth 1 -depth -type d -empty -delete
    done
}

@test "a node that does not come, one that comes twice, a port that is taken" {
    local port
    port=$(free_port)
    run -1 ddprun --nnodes 2 --master-port "$port" --rdzv-conf timeout=0.5 true
    [[ $output == *"node 1 did not come to 127.0.0.1:$port within 0.5 s"* ]]
    run -1 ddprun --nnodes 2 --node-rank 1 --master-port "$port" --rdzv-conf timeout=0.5 true
    [[ $output == *"node 0 did not come"* ]]

    ddprun --nnodes 3 --master-port "$port" --rdzv-conf timeout=5 true 2> /dev/null 3>&- &
    ddprun --nnodes 3 --node-rank 1 --master-port "$port" --rdzv-conf timeout=5 true 2> /dev/null 3>&- &
    sleep 0.5
    run -1 ddprun --nnodes 3 --node-rank 1 --master-port "$port" true
    [[ $output == *"node 1 is there already"* ]]
    run -1 ddprun --nnodes 3 --master-port "$port" true
    [[ $output == *"cannot serve the store at 127.0.0.1:$port: Address already in use"* ]]
    kill $(jobs -p)
    wait || true
}

# --- usage ---

@test "usage errors: one line, status 2" {
    while read -r wanted arguments; do
        run -2 ddprun $arguments
        [ "${#lines[@]}" -eq 1 ]
        [[ $output == "ddprun: "*"${wanted//_/ }"* ]] || { echo "$arguments: $output" && false; }
    done <<'EOF'
which_program
unknown_flag --nope true
unknown_flag -x true
unknown_flag --nproc true
needs_a_value --nproc-per-node
takes_no_value --standalone=1 true
from_1_to --nproc-per-node 0 true
from_1_to --nproc-per-node 2x true
from_1_to --nproc-per-node 99999999999999999999 true
from_1_to --nnodes 0 true
from_1_to --nnodes 2:x true
step_05's --nnodes 1:2 true
step_05's --max-restarts 1 true
whole_number --max-restarts x true
whole_number --node-rank 1 true
whole_number --nnodes 2 --node-rank 2 true
whole_number --master-port 65536 true
several_nodes_must_agree --nnodes 2 --master-port 0 true
--master-port --nnodes 2 --rdzv-backend c10d true
--node-rank --rdzv-backend etcd true
one_node --standalone --nnodes 2 true
HOST:PORT --rdzv-endpoint :1 true
HOST:PORT --rdzv-endpoint host:port true
and_no_/ --rdzv-id a/b true
KEY=VALUE --rdzv-conf timeout true
seconds --rdzv-conf timeout=x true
seconds --monitor-interval 0 true
seconds --shutdown-timeout -1 true
stdout --redirects 4 true
stdout -t 1:1 true
stdout -t 0:1; true
stdout --tee= true
local_ranks --local-ranks-filter 1 true
local_ranks --local-ranks-filter 0, true
exclude_each_other -m --no-python true
EOF
}

@test "--nproc-per-node gpu where there is none" {
    CUDA_VISIBLE_DEVICES= run -2 ddprun --nproc-per-node gpu true
    [[ $output == *"shows no GPU"* ]]
}

@test "--help teaches what this step knows" {
    run -0 ddprun --help
    [[ $output == *LOCAL_RANK*--nproc-per-node*--nnodes* && $output != *--max-restarts* ]]
    local width
    width=$(echo "$output" | awk '{ if (length > n) n = length } END { print n }')
    [ "$width" -le 100 ]
}
