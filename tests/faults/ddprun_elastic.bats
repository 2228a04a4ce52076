#!/usr/bin/env bats
# The launcher of step 05 with elastic nodes. All of them are this machine except in the last test.

bats_require_minimum_version 1.5.0
load ../steps/ddprun_helper
load elastic_helper

@test "nodes number themselves, and ranks find torchrun's whole environment" {
    NODES=2 agent a --nproc-per-node 2 --role x --rdzv-backend c10d sh -c "$env"
    NODES=2 agent b --role y --rdzv-backend c10d sh -c "$env"
    ends a 0
    ends b 0
    sort "$OUT/a" "$OUT/b" | grep -v "this job has no secret" > "$OUT/ranks"
    if grep -q "^0/3 .* x " "$OUT/ranks"; then # a was the first to come, and so the host
        diff "$OUT/ranks" - <<EOF
0/3 0/2 0/2 x 0/2 127.0.0.1 0/0 none True
1/3 1/2 0/2 x 1/2 127.0.0.1 0/0 none True
2/3 0/1 1/2 y 0/1 127.0.0.1 0/0 none True
EOF
    else
        diff "$OUT/ranks" - <<EOF
0/3 0/1 0/2 y 0/1 127.0.0.1 0/0 none True
1/3 0/2 1/2 x 0/2 127.0.0.1 0/0 none True
2/3 1/2 1/2 x 1/2 127.0.0.1 0/0 none True
EOF
    fi
}

@test "2 to 1 to 2 nodes in one job; nodes that go and come use up no restart" {
    agent host sh -c "$worker"
    await world 1
    agent b --nproc-per-node 2 sh -c "$worker"
    await world 3
    end KILL b
    await world 1
    agent c sh -c "$worker"
    await world 2
    grep -q "2: 0/1 of 1 nodes" "$OUT/ranks"
    grep -q "3: 1/2 of 2 nodes" "$OUT/ranks"
    grep -q "attempt 1: node 1 has not been heard of since it hung up; restarting the group" "$OUT/host"
    end TERM c # leaves
    ends c 143
    await world 1
    end TERM host
    ends host 143
    [ "$(tail -n 1 "$OUT/host")" = "ddprun: ended by SIGTERM" ]
}

@test "an agent that is stopped is lost; when it wakes up it is let in again" {
    CONF=$CONF,keep_alive_max_attempt=20
    agent host sh -c "$worker"
    await world 1
    agent b sh -c "$worker"
    await world 2
    kill -STOP "${pid[b]}"
    await world 1
    grep -q "node 1 has not been heard of for 10 s" "$OUT/host"
    kill -CONT "${pid[b]}"
    await world 2
    grep -q "the others have ended without this node; restarting the group" "$OUT/b"
    [ "$(left_over | wc -l)" -eq 2 ]
    end TERM b
    ends b 143
    end TERM host
    ends host 143
}

@test "a job lives and dies with the host of its rendezvous" {
    export DDP_SECRET_FILE= # none: queue looks into the store
    for signal in KILL STOP TERM; do
        CONF=$CONF,keep_alive_max_attempt=20,join_timeout=30 # for which a host that is stopped is waited for
        rm -f "$OUT/ranks"
        PORT=$(free_port)
        agent host sh -c "$worker"
        await world 1
        agent b sh -c "$worker"
        await world 2
        agent spare true
        await queue 1
        kill -$signal "${pid[host]}"
        ends b "$([ $signal = TERM ] && echo 143 || echo 1)"
        grep -q "node 0 is out of reach\|ended by SIGTERM" "$OUT/b"
        gone spare
        ! wait "${pid[spare]}" || false
        grep -q "no answer within\|is gone; the job ends\|has ended with status 143\|has the process that serves it ended" "$OUT/spare"
        [ "$(grep -vc "waits at .* to be let in" "$OUT/spare")" -eq 1 ] # which it says after 10 s
        kill -KILL "${pid[host]}" 2> /dev/null || true
        gone host
    done
}

@test "who is one too many is a spare, and takes over" {
    export DDP_SECRET_FILE=
    agent host sh -c "$worker"
    await world 1
    agent b sh -c "$worker"
    await world 2
    agent spare --nproc-per-node 2 sh -c "$worker"
    await queue 1 # of two that come at once, either may be the first
    agent never sh -c "$worker"
    await queue 2
    end KILL b
    await world 3
    ! grep -q "restarting the group" "$OUT/never" || false
    end TERM host
    ends host 143
    ends spare 143
    ends never 143
    grep -q "the job at 127.0.0.1:$PORT has ended with status 143" "$OUT/never"
}

@test "who was in the group and is a spare at its end tells how its attempts ended" {
    export DDP_SECRET_FILE=
    CONF=$CONF,keep_alive_max_attempt=20
    mortal='echo "$TORCHELASTIC_RESTART_COUNT: $RANK/$WORLD_SIZE of" >> $OUT/ranks; until [ -e $OUT/die ]; do sleep 0.1; done; exit 7'
    agent host sh -c "$mortal"
    await world 1
    agent b -r 3 sh -c "$mortal"
    await world 2
    agent c sh -c "$mortal"
    await queue 1
    kill -STOP "${pid[b]}"
    await grep -q '^2: 1/2' "$OUT/ranks" # c took over
    kill -CONT "${pid[b]}"
    await queue 1
    touch "$OUT/die"
    for name in host c b; do ends $name 7; done
    echo "$(cat "$OUT/b")"
    grep -A 1 "the job at 127.0.0.1:$PORT has ended with status 7" "$OUT/b" | tail -n 1 | grep -q "^Earlier attempts:"
    grep -q "^  attempt 1: the others have ended without this node" "$OUT/b"
    grep -q "logs are in $TMPDIR" "$OUT/b"
    rm -r "$(sed -n 's/.*logs are in //p' "$OUT/b")"
}

@test "too few are left: a line everywhere" {
    NODES=2:3 CONF=$CONF,join_timeout=15
    agent host sh -c "$worker"
    agent b sh -c "$worker"
    await world 2
    agent c sh -c "$worker"
    await world 3
    end KILL b
    await world 2
    end KILL c
    ends host 1
    tail -n 1 "$OUT/host" | grep -q "fatal: only 1 of at least 2 nodes came to 127.0.0.1:$PORT within 15 s"
    NODES=3:4
    agent host true
    agent b true
    ends host 1
    ends b 1
    grep -q "only 2 of at least 3 nodes came" "$OUT/host"
    grep -q "only 2 of at least 3 nodes came" "$OUT/b"
}

@test "restarts used up: all nodes end with one status and one cause" {
    NODES=2
    for name in a b; do
        agent $name --rdzv-backend c10d --max-restarts 2 sh -c '[ $RANK = 1 ] && exit 7; exec sleep 100'
    done
    ends a 7
    ends b 7
    diff <(grep -A 4 "Root cause" "$OUT/a") <(grep -A 4 "Root cause" "$OUT/b")
    grep -q "  attempt 1: rank 1 on node 1 " "$OUT/a"
    diff <(grep "^  attempt" "$OUT/a") <(grep "^  attempt" "$OUT/b")
    [ "$(grep -c "^  attempt" "$OUT/a")" -eq 2 ]
}

@test "75 from all ends all with 75; 2 from one ends all with 2" {
    NODES=2
    for status in 75 2; do
        for name in a b; do
            agent $name --rdzv-backend c10d --max-restarts 2 sh -c 'echo $TORCHELASTIC_RESTART_COUNT >> $OUT/ranks; exit "$0"' $status
        done
        for name in a b; do ends $name $status; done
        [ "$(sort -u "$OUT/ranks")" = 0 ]
        rm "$OUT/ranks"
    done
}
