# Shared by the tests of elastic nodes.

DDPRUN=05_fault_tolerance/ddprun
NODES=1:2
declare -gA pid

# A rank that records its identity, then works until it is ended.
worker='echo "$TORCHELASTIC_RESTART_COUNT: $RANK/$WORLD_SIZE of $GROUP_WORLD_SIZE nodes" >> $OUT/ranks; exec sleep 1000'
env='echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $ROLE_NAME \
    $ROLE_RANK/$ROLE_WORLD_SIZE $MASTER_ADDR $TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS \
    $TORCHELASTIC_RUN_ID $TORCHELASTIC_USE_AGENT_STORE'

eval "base_$(declare -f setup)" && eval "base_$(declare -f teardown)"

setup() {
    base_setup
    PORT=$(free_port)
    ! has_secrets || export DDP_SECRET_FILE=$OUT/secret
    (umask 077 && head -c 32 /dev/urandom > "$OUT/secret")
    CONF=last_call_timeout=0.5,join_timeout=200,keep_alive_interval=0.5,keep_alive_max_attempt=40
}

teardown() {
    local name
    for name in "${!pid[@]}"; do
        kill -KILL "${pid[$name]}" 2> /dev/null || continue
        echo "$name was still there"
    done
    await no_process_left && await swept && base_teardown
}

no_process_left() {
    [ -z "$(left_over)" ]
}

# agent NAME ARGUMENTS...: one more node of the job; its output goes to $OUT/NAME. The first one, called
# host, serves the rendezvous, so the others wait for it.
agent() {
    local name=$1
    shift
    "$DDPRUN" --nnodes "$NODES" --rdzv-endpoint "127.0.0.1:$PORT" --rdzv-conf "$CONF" "$@" \
        > "$OUT/$name" 2>&1 3>&- &
    pid[$name]=$!
    [ "$name" != host ] || await listens
}

listens() {
    (exec 3<>"/dev/tcp/127.0.0.1/$PORT")
}

# end SIGNAL NAME
end() {
    kill "-$1" "${pid[$2]}"
}

has_ended() {
    ! kill -0 "$1" 2> /dev/null
}

# gone NAME: waits until the agent has ended.
gone() {
    await has_ended "${pid[$1]}" || { cat "$OUT/$1" && false; }
}

# ends NAME STATUS: waits until the agent has ended, with this status.
ends() {
    local status=0
    gone "$1"
    wait "${pid[$1]}" || status=$?
    unset "pid[$1]"
    [ "$status" -eq "$2" ] || { echo "$1 ended with $status" && cat "$OUT/$1" && false; }
}

# world SIZE: the latest attempt has SIZE ranks, and all are running.
world() {
    local attempt
    attempt=$(tail -n 1 "$OUT/ranks" | cut -d : -f 1)
    [ "$(grep -c "^$attempt: [0-9]*/$1 of" "$OUT/ranks")" -eq "$1" ]
}

# queue LENGTH: LENGTH agents wait for room. The first in the queue is the next to be accepted.
queue() {
    [ "$(python3 -c 'import socket, struct, sys
store, key = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10), b"/ddprun/waiting"
store.sendall(struct.pack("<BIBQ", 0, 0x3C85F7CE, 16, len(key)) + key) # STORE_QUEUE_LEN
print(struct.unpack("<q", store.recv(8))[0])' "$PORT")" -eq "$1" ]
}
