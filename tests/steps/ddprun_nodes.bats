# The launchers of several nodes, here all on this one.

bats_require_minimum_version 1.5.0
load ddprun_helper

eval "base_$(declare -f setup)"

# The jobs have a secret, and so do not warn about it. In a build without extras they have none: see two_nodes.
setup() {
    base_setup
    has_secrets || return 0
    export DDP_SECRET_FILE=$OUT/secret
    (umask 077 && head -c 32 /dev/urandom > "$DDP_SECRET_FILE")
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
    has_secrets || sed -i.all '/^ddprun: this job has no secret: /d' "$OUT/node_0"
}

@test "two nodes with different numbers of ranks" {
    two_nodes 1 2 sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE \
        $ROLE_RANK/$ROLE_WORLD_SIZE $TORCHELASTIC_RUN_ID'
    [ "$status_0 $status_1" = "0 0" ]
    [ "$(cat "$OUT/node_0")" = "0/3 0/1 0/2 0/3 none" ]
    [ "$(sort "$OUT/node_1")" = "1/3 0/2 1/2 1/3 none
2/3 1/2 1/2 2/3 none" ]
}

@test "the address of another machine, but no other node" {
    run -0 ddprun --master-addr 203.0.113.7 true # an address for documents (RFC 5737)
    [ "${lines[0]}" = "ddprun: warning: --master-addr 203.0.113.7 is no address of this machine, which is the only node: is --nnodes missing?" ]
    [[ ${lines[1]} =~ ^"ddprun: port "[0-9]+" is open on every interface: 203.0.113.7 is no address that this machine could listen on alone"$ ]]
    [ "${#lines[@]}" -eq 2 ]
    run -0 ddprun --master-addr localhost true
    [ -z "$output" ]
}

@test "IPv6 with brackets and without, and this machine's name" {
    local host address=::1
    [ -e /proc/sys/net/ipv6 ] && [ "$(cat /proc/sys/net/ipv6/conf/lo/disable_ipv6)" = 0 ] || address=127.0.0.1
    for host in "[::1]" ::1 0:0:0:0:0:0:0:1 localhost "$(hostname)"; do
        [[ $host != *:* || $address = ::1 ]] || continue
        local port
        port=$(free_port)
        ddprun --nnodes 2 --node-rank 1 --master-addr "$host" --master-port "$port" \
            03_torchrun_env/train 1 0 --model linear --max-steps 2 --checkpoint-dir "$OUT/c" > "$OUT/node_1" 2>&1 3>&- &
        run -0 ddprun --nnodes 2 --master-addr "$host" --master-port "$port" \
            03_torchrun_env/train 1 0 --model linear --max-steps 2 --checkpoint-dir "$OUT/c"
        wait $!
        [[ $output == *"Train Epoch: 0 [0/2048] Loss: "* ]]
    done
    [ $address = ::1 ] || return 0
    port=$(free_port)
    ddprun --nnodes 2 --node-rank 1 --rdzv-endpoint "[::1]:$port" true 3>&- &
    run -0 ddprun --nnodes 2 --rdzv-endpoint "[::1]:$port" sh -c 'echo $MASTER_ADDR $MASTER_PORT'
    wait $!
    [ "$(grep -v ' this job has no secret: ' <<<"$output")" = "::1 $port" ]
}

@test "nodes with different roles" {
    local port
    port=$(free_port)
    ddprun --nnodes 2 --node-rank 1 --master-port "$port" --role b --nproc-per-node 2 \
        sh -c 'echo $ROLE_NAME $RANK $ROLE_RANK/$ROLE_WORLD_SIZE' > "$OUT/node_1" 3>&- &
    run -0 ddprun --nnodes 2 --rdzv-backend static --rdzv-endpoint "127.0.0.1:$port" --role a \
        sh -c 'echo $ROLE_NAME $RANK $ROLE_RANK/$ROLE_WORLD_SIZE'
    wait $!
    [ "$(grep -v ' this job has no secret: ' <<<"$output")" = "a 0 0/1" ]
    [ "$(sort "$OUT/node_1")" = "b 1 0/2
b 2 1/2" ]
}

@test "a failure on node 1 ends node 0, which names it and has its status" {
    SECONDS=0
    two_nodes 2 1 --shutdown-timeout 300 sh -c '
        [ $RANK != 0 ] || { echo $$ >"$OUT/pid_0"; exit; }
        [ $RANK != 1 ] || exec sleep 1000
        until [ -s "$OUT/pid_0" ] && ! kill -0 "$(cat "$OUT/pid_0")"; do sleep 0.02; done 2>/dev/null
        exit 7'
    [ "$SECONDS" -le 100 ] # and no process has waited for --shutdown-timeout
    [ "$status_0 $status_1" = "7 7" ]
    [[ $(cause "$OUT/node_0") == "rank 2 on node 1 "*": exit status 7" ]]
    has_extras || return 0
    grep -q 'rank    : 2 (local_rank: 0' "$OUT/node_0"
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
        flags="--nnodes 2 --master-port $port --rdzv-conf keep_alive_interval=0.2,keep_alive_max_attempt=1000" # it hangs up
        03_torchrun_env/ddprun $flags --node-rank $victim sh -c 'touch $OUT/up_$RANK; exec sleep 1000' 3>&- &
        local pid=$!
        ddprun $flags --node-rank $other sh -c 'touch $OUT/up_$RANK; exec sleep 100' > "$OUT/log" 2>&1 3>&- &
        local watched=$!
        await test -e "$OUT/up_0" -a -e "$OUT/up_1"
        kill -KILL $pid
        wait $pid || true
        status=0
        wait $watched || status=$?
        [ "$status" -eq 1 ]
        ! has_extras || grep -q "node    : $victim" "$OUT/log"
        grep -Eq "node $victim (is out of reach|has not been heard of)" "$OUT/log"
        ! grep "fatal:" "$OUT/log" || false
        await swept
    done
}

@test "a launcher's processes that are stopped (SIGSTOP) do not keep it from seeing the end" {
    two_nodes 1 1 sh -c 'ps -o pid=,comm= --ppid $PPID | while read -r pid name; do
        [ "$name" != ddprun ] || kill -STOP "$pid"; done; sleep 1'
    [ "$status_0 $status_1" = "0 0" ]
    [ -z "$(cat "$OUT/node_0" "$OUT/node_1")" ]
}

# The store at that port has node 1's report about itself (queried by CHECK, which answers 0 then).
node_1_is_there() {
    python3 - "$1" <<'EOF'
import socket, struct, sys
key = b"/none/torchelastic/role_info/1"
store = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
store.sendall(struct.pack("<BIBQQ", 0, 0x3C85F7CE, 5, 1, len(key)) + key)
sys.exit(store.recv(1)[0])
EOF
}

@test "a node that does not come, one that comes twice, a port that is taken" {
    local port
    unset DDP_SECRET_FILE # node_1_is_there has none
    port=$(free_port)
    run -1 ddprun --nnodes 2 --master-port "$port" --rdzv-conf timeout=0.5 true
    [[ $output == *"node 1 did not come to 127.0.0.1:$port within 0.5 s"* ]]
    run -1 ddprun --nnodes 2 --node-rank 1 --master-port "$port" --rdzv-conf timeout=0.5 true
    [[ $output == *"node 0 did not come"* ]]

    03_torchrun_env/ddprun --nnodes 3 --master-port "$port" true 2> /dev/null 3>&- &
    03_torchrun_env/ddprun --nnodes 3 --node-rank 1 --master-port "$port" true 2> /dev/null 3>&- &
    await node_1_is_there "$port"
    run -1 ddprun --nnodes 3 --node-rank 1 --master-port "$port" true
    [[ $output == *"node 1 is there already"* ]]
    run -1 ddprun --nnodes 3 --master-port "$port" true
    [[ $output == *"cannot serve the store at 127.0.0.1:$port: Address already in use"* ]]
    kill $(jobs -p)
    wait || true
}

# A torchrun as node 1 with two ranks, as far as the store sees it. $1: the port; $2: "fails", or not.
strange_agent() {
    python3 - "$@" <<'EOF'
import json, socket, struct, sys, time
port = int(sys.argv[1])
blob = lambda data: struct.pack("<Q", len(data)) + data
key = lambda name: blob(b"/none/torchelastic/" + name)
for _ in range(2000):
    try:
        store = socket.create_connection(("127.0.0.1", port))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
store.settimeout(100)

def ask(request, count=0):
    store.sendall(request)
    reply = b""
    while len(reply) < count:
        reply += store.recv(count - len(reply)) or sys.exit("hung up on")
    return reply

wait = lambda name: ask(b"\x06" + struct.pack("<Q", 1) + key(name), 1)
add = lambda name: struct.unpack("<q", ask(b"\x04" + name + struct.pack("<q", 1), 8))[0]
ask(b"\x00" + struct.pack("<I", 0x3C85F7CE))
add(blob(b"init/"))
info = {"role": "default", "rank": 1, "local_world_size": 2}
ask(b"\x01" + key(b"role_info/1") + blob(json.dumps(info).encode()))
wait(b"assigned_ranks/1")
size = struct.unpack("<Q", ask(b"\x03" + key(b"assigned_ranks/1"), 8))[0]
print(json.loads(ask(b"", size)), flush=True)
if sys.argv[2:] == ["fails"]:
    sys.exit()
if add(key(b"agent/terminal_state/num_members")) == 2:
    ask(b"\x01" + key(b"agent/terminal_state/last_member") + blob(b"<val_ignored>"))
wait(b"agent/terminal_state/last_member")
print("over")
EOF
}

@test "a build without extras has no secrets, and says so" {
    ! has_secrets || skip "this build has extras"
    for program in 03_torchrun_env/ddprun 05_fault_tolerance/ddprun; do
        run -2 $program --secret-file Makefile true
        [[ $output == *"Makefile: this program was built without extras/secret and cannot use a secret: make EXTRAS=1" ]]
    done
    DDP_SECRET_FILE=Makefile run -2 02_multi_gpu_spawn/train
    [[ $output == *"Makefile: this program was built without extras/secret"* ]]
    two_nodes 1 1 true
    [ "$status_0 $status_1" = "0 0" ]
    [[ $(cat "$OUT/node_0.all") == "ddprun: this job has no secret: whoever reaches 127.0.0.1:"* ]]
    ! ldd 0[2-5]_*/train 03_*/ddprun 05_*/ddprun | grep sodium || false
}

@test "several nodes without a secret: one line says so; with different ones, or some without, a line ends each that comes" {
    has_secrets || skip "this build has no secrets"
    local port secret=$DDP_SECRET_FILE
    unset DDP_SECRET_FILE
    two_nodes 1 1 sh -c 'echo "$RANK has \"$DDP_SECRET_FILE\""'
    [ "$status_0 $status_1" = "0 0" ]
    [[ $(cat "$OUT/node_0") == "ddprun: this job has no secret: whoever reaches 127.0.0.1:"*"--secret-file or DDP_SECRET_FILE (docs/security.md)
0 has \"\"" ]]
    [ "$(cat "$OUT/node_1")" = '1 has ""' ]
    two_nodes 1 1 --secret-file "$secret" sh -c 'echo "$RANK has $DDP_SECRET_FILE"'
    [ "$(cat "$OUT/node_0" "$OUT/node_1")" = "0 has $secret
1 has $secret" ]

    port=$(free_port)
    03_torchrun_env/ddprun --nnodes 2 --secret-file "$secret" --master-port "$port" true > "$OUT/node_0" 2>&1 3>&- &
    (umask 077 && head -c 32 /dev/urandom > "$OUT/other")
    run -1 ddprun --nnodes 2 --node-rank 1 --secret-file "$OUT/other" --master-port "$port" true
    [ "$output" = "ddprun: fatal: the store at 127.0.0.1:$port does not know this job's secret, $OUT/other (DDP_SECRET_FILE): \
give all nodes the same, with the same --rdzv-id, or none; torchrun's have none" ]
    run -1 ddprun --nnodes 2 --node-rank 1 --master-port "$port" true
    [ "$output" = "ddprun: fatal: the job at 127.0.0.1:$port has a secret and this process has none: \
give it the same --secret-file or DDP_SECRET_FILE" ]
    kill $!
    wait $! || [ $? -eq 143 ]
}

@test "torchrun's agents can be nodes of the job" {
    local port
    unset DDP_SECRET_FILE # they could not use it
    for late in 0 0.5; do # which one is last
        port=$(free_port)
        strange_agent "$port" > "$OUT/node_1" 2>&1 3>&- &
        run -0 ddprun --nnodes 2 --master-port "$port" sh -c "sleep $late"'; echo $RANK/$WORLD_SIZE'
        wait $!
        [[ $output == "ddprun: this job has no secret: "*"(docs/security.md)
0/3" ]]
        [ "$(cat "$OUT/node_1")" = "[1, 3, 1, 3]
over" ]
    done
}

@test "a failure here lets torchrun's agents go, too" {
    local port
    unset DDP_SECRET_FILE
    port=$(free_port)
    strange_agent "$port" > "$OUT/node_1" 2>&1 3>&- &
    run -3 ddprun --nnodes 2 --master-port "$port" \
        sh -c 'until [ -s "$OUT/node_1" ]; do sleep 0.02; done; sleep 0.3; exit 3'
    wait $!
    grep -q over "$OUT/node_1"
}

@test "a torchrun's agent that fails says nothing, but is missed" {
    local port
    unset DDP_SECRET_FILE
    port=$(free_port)
    SECONDS=0
    strange_agent "$port" fails > "$OUT/node_1" 2>&1 3>&- &
    run -1 ddprun --nnodes 2 --master-port "$port" --rdzv-conf keep_alive_interval=0.2,keep_alive_max_attempt=1000 sleep 1000
    wait $!
    [ "$(cat "$OUT/node_1")" = "[1, 3, 1, 3]" ]
    [[ $output == *"node 1 has hung up before the job was over"* ]]
    [ "$SECONDS" -le 100 ]
}
