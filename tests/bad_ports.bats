#!/usr/bin/env bats
# The master's address and port: in use, wrong, unknown, somebody else's; and nodes at odds.

load bad_helper

# A server that is no store: says its greeting to whoever comes, if it has one. Sets port and server.
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
    until_true 20 test -s "$OUT/stranger"
    port=$(cat "$OUT/stranger")
}

# ended_within SECONDS NAME STATUS TEXT
ended_within() {
    ended "${@:2}"
    [ "$(cat "$OUT/$2.seconds")" -le "$1" ] || { echo "$2 took $(cat "$OUT/$2.seconds") s" && false; }
}

@test "a port in use: the line names who has it" {
    stranger
    start_rank zero 0 2 -- --timeout 30
    run -1 timeout 30 $DDPRUN --nnodes 1 --master-port "$port" true
    ended_within 10 zero 1 "cannot serve the store at 127.0.0.1:$port: Address already in use by python3 (pid $server)"
    [[ $output == *"at 127.0.0.1:$port: Address already in use by python3 (pid $server); try --master-port" ]]
    kill "$server"
}

@test "whoever answers at the master's port but is no store is told apart from silence" {
    stranger "HTTP/1.0 400 Bad Request"
    start_rank one 1 2 -- --timeout 30
    run -1 timeout 30 $DDPRUN --nnodes 2 --node-rank 1 --master-port "$port" true
    [ "$output" = "ddprun: fatal: no store of node 0 at 127.0.0.1:$port (who answers there is no store): are --master-addr and --master-port right?" ]
    ended_within 10 one 1 "no store at 127.0.0.1:$port within 30 s (who answers there is no store)"
    kill "$server"

    stranger
    start_rank two 1 2 -- --timeout 1
    run -1 timeout 30 $DDPRUN --nnodes 2 --node-rank 1 --master-port "$port" --rdzv-conf timeout=1 true
    [[ $output == *"who listens there does not answer as a store does"* ]]
    ended_within 10 two 1 "no store at 127.0.0.1:$port within 1 s (who listens there does not answer"
    kill "$server"
}

@test "nobody there" {
    port=$(free_port)
    start_rank refused 1 2 -- --timeout 1
    start_rank silent 1 2 MASTER_ADDR=203.0.113.7 -- --timeout 1 # an address for documents (RFC 5737)
    wait
    ended_within 10 refused 1 "no store at 127.0.0.1:$port within 1 s (nobody listens there): is rank 0 running"
    ended_within 10 silent 1 "no store at 203.0.113.7:$port within 1 s ("
    run -1 timeout 30 $DDPRUN --nnodes 2 --node-rank 1 --master-port "$port" --rdzv-conf timeout=1 true
    [[ $output == *"node 0 did not come to 127.0.0.1:$port within 1 s"* ]]
}

@test "a name that is none is said at once, and again at the end" {
    port=$(free_port)
    start_rank zero 0 2 MASTER_ADDR=nowhere.invalid -- --timeout 4
    start_rank one 1 2 MASTER_ADDR=nowhere.invalid -- --timeout 4
    for rank in zero one; do
        until_true 15 has_line 'warning: no host "nowhere.invalid" is known here: trying for' "$OUT/$rank"
        [ ! -e "$OUT/$rank.status" ]
    done
    wait
    for rank in zero one; do
        [ "$(cat "$OUT/$rank.seconds")" -le 20 ]
        [ "$(cat "$OUT/$rank.status")" -eq 1 ]
        [ "$(wc -l <"$OUT/$rank")" -eq 2 ]
        has_line "no store at nowhere.invalid:$port within 4 s (no such host is known)" "$OUT/$rank"
    done
}

@test "nodes that were given different --nnodes: all are told, nobody runs" {
    for zero in 2 3; do
        local one=$((5 - zero)) node
        port=$(free_port)
        for node in 0 1 2; do
            local nnodes=$one
            [ $node -ne 0 ] || nnodes=$zero
            [ $node -ne 2 ] || nnodes=3
            rank_to_end "node_$node" timeout 60 $DDPRUN --nnodes $nnodes --node-rank $node \
                --master-port "$port" --rdzv-conf timeout=20 touch "$OUT/ran" 3>&- &
            [ $node -ne 0 ] || [ $zero -ne 2 ] || until_true 10 listens "$port"
        done
        wait
        for node in 0 1 2; do
            [ "$(cat "$OUT/node_$node.status")" -eq 1 ]
            grep -Eq "has --nnodes (2, but another one --nnodes 3|3, but another one --nnodes 2): give all nodes the same" \
                "$OUT/node_$node" || { cat "$OUT"/node_* && false; }
            [ "$(cat "$OUT/node_$node.seconds")" -le 10 ]
        done
        [ ! -e "$OUT/ran" ]
    done
}
