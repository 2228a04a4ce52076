#!/usr/bin/env bats
# The master's address and port: in use, wrong, unknown, another program's; and nodes that disagree.

load bad_helper

# A server that is not a store: sends its greeting, if any, to every client. Sets port and server.
stranger() {
    rm -f "$OUT/stranger"
    python3 - "$@" >"$OUT/stranger" 3>&- <<'EOF2' &
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
callers = []
while True:
    caller, _ = server.accept()
    caller.sendall(b"".join(word.encode() for word in sys.argv[1:]))
    callers.append(caller)
EOF2
    server=$!
    until_true 100 test -s "$OUT/stranger"
    port=$(cat "$OUT/stranger")
}

# ended_within SECONDS NAME STATUS TEXT: at most 100 s is "at once", where the timeout is 200 s or more.
ended_within() {
    ended "${@:2}"
    [ "$(cat "$OUT/$2.seconds")" -le "$1" ] || { echo "$2 took $(cat "$OUT/$2.seconds") s" && false; }
}

@test "a port in use: the line says which" {
    stranger
    start_rank zero 0 2 -- --timeout 200
    run -1 timeout 200 $DDPRUN --nnodes 1 --master-port "$port" true
    ended_within 100 zero 1 "cannot serve the store at 127.0.0.1:$port: Address already in use"
    [[ $output == *"at 127.0.0.1:$port: Address already in use"*"; try --master-port" ]]
    kill "$server"
}

@test "whoever answers at the master's port but is no store is told apart from silence" {
    stranger "HTTP/1.0 400 Bad Request"
    start_rank one 1 2 -- --timeout 200
    run -1 timeout 200 $DDPRUN --nnodes 2 --node-rank 1 --master-port "$port" true
    [ "$output" = "ddprun: fatal: no store of node 0 at 127.0.0.1:$port (what answers there is no store): are --master-addr and --master-port right?" ]
    ended_within 100 one 1 "no store at 127.0.0.1:$port within 200 s (what answers there is no store)"
    kill "$server"

    stranger
    start_rank two 1 2 -- --timeout 1
    run -1 timeout 200 $DDPRUN --nnodes 2 --node-rank 1 --master-port "$port" --rdzv-conf timeout=1 true
    [[ $output == *"what listens there does not answer as a store does"* ]]
    ended_within 100 two 1 "no store at 127.0.0.1:$port within 1 s (what listens there does not answer"
    kill "$server"
}

@test "nobody there" {
    port=$(free_port)
    start_rank refused 1 2 -- --timeout 1
    start_rank silent 1 2 MASTER_ADDR=203.0.113.7 -- --timeout 1 # an address for documents (RFC 5737)
    wait
    ended_within 100 refused 1 "no store at 127.0.0.1:$port within 1 s (nobody listens there): is rank 0 running"
    ended_within 100 silent 1 "no store at 203.0.113.7:$port within 1 s ("
    run -1 timeout 200 $DDPRUN --nnodes 2 --node-rank 1 --master-port "$port" --rdzv-conf timeout=1 true
    [[ $output == *"node 0 did not come to 127.0.0.1:$port within 1 s"* ]]
}

@test "a name that is none is said at once, and again at the end" {
    port=$(free_port)
    local warning='warning: no host "nowhere.invalid" is known here: still trying'
    start_rank patient 1 2 MASTER_ADDR=nowhere.invalid -- --timeout 200
    until_true 100 has_line "$warning" "$OUT/patient"
    [ ! -e "$OUT/patient.status" ]
    kill -KILL $(left_over)
    start_rank zero 0 2 MASTER_ADDR=nowhere.invalid -- --timeout 7
    start_rank one 1 2 MASTER_ADDR=nowhere.invalid -- --timeout 7
    wait
    for rank in zero one; do
        has_line "$warning" "$OUT/$rank"
        [ "$(cat "$OUT/$rank.seconds")" -le 100 ]
        [ "$(cat "$OUT/$rank.status")" -eq 1 ]
        [ "$(wc -l <"$OUT/$rank")" -eq 2 ]
        has_line "no store at nowhere.invalid:$port within 7 s (no such host is known)" "$OUT/$rank"
    done
}

@test "ranks that are started by hand say after a while whom they wait for" {
    port=$(free_port)
    start_rank one 1 3 -- --timeout 200
    until_true 100 has_line "rank 1/3. waits for rank 0 at 127.0.0.1:$port (nobody listens there), 200 s at most (--timeout)" "$OUT/one"
    start_rank zero 0 3 -- --timeout 200
    until_true 100 has_line "rank 0/3. waits for rank 2 of 3, 200 s at most (--timeout)" "$OUT/zero"
    start_rank two 2 3 -- --timeout 200
    for rank in zero one two; do
        until_true 250 test -s "$OUT/$rank.status"
        [ "$(cat "$OUT/$rank.status")" -eq 0 ]
    done
    [ "$(grep -c waits "$OUT/zero")$(grep -c waits "$OUT/one")$(grep -c waits "$OUT/two")" = 110 ]
}

# has_come NODE PORT: it is connected to the store there, beside node 0 itself, or has ended already.
has_come() {
    [ -s "$OUT/node_$1.status" ] || [ "$(sockets "$2" 01 | wc -l)" -ge 2 ]
}

@test "nodes that were given different --nnodes: all are told, nobody runs" {
    for zero in 2 3; do
        local one=$((5 - zero)) node
        port=$(free_port)
        for node in 0 2 1; do # whoever is not there when the job is refused is not told, but waits in vain
            local nnodes=$one
            [ $node -ne 0 ] || nnodes=$zero
            [ $node -ne 2 ] || nnodes=3
            rank_to_end "node_$node" timeout 240 $DDPRUN --nnodes $nnodes --node-rank $node \
                --master-port "$port" --rdzv-conf timeout=200 touch "$OUT/ran" 3>&- &
            [ $node -ne 0 ] || until_true 100 listens "$port"
            [ $node -ne 2 ] || until_true 100 has_come 2 "$port"
        done
        wait
        for node in 0 1 2; do
            [ "$(cat "$OUT/node_$node.status")" -eq 1 ]
            grep -Eq "has --nnodes (2, but another one --nnodes 3|3, but another one --nnodes 2): give all nodes the same" \
                "$OUT/node_$node" || { cat "$OUT"/node_* && false; }
            [ "$(cat "$OUT/node_$node.seconds")" -le 100 ]
        done
        [ ! -e "$OUT/ran" ]
    done
}
