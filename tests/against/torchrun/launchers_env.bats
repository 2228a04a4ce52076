# What a worker finds: its variables, its arguments, its log folders, under torchrun and under ddprun.

load launchers_helper

# environment FILE: of a worker, line by line, as far as the launcher is to set it alike. ddprun gives
# workers that have company their share of the cores, torchrun one; only ddprun gives them a secret.
environment() {
    local hex='[0-9a-f]+'
    local uuid="$hex-$hex-$hex-$hex-$hex"
    tr '\0' '\n' < "$1" | sed -E "/^(DDP_SECRET_FILE|LAUNCHER|OMP_NUM_THREADS|MASTER_PORT|OLDPWD|PWD|SHLVL|_)=/d
        s|^(TORCHELASTIC_ERROR_FILE=).*/(job\|$uuid)_[A-Za-z0-9_]{8}/|\1ID_X/|
        s|^(TORCHELASTIC_RUN_ID=)$uuid$|\1UUID|
        s|^(MASTER_ADDR=)(localhost\|127.0.0.1\|$(hostname -f))$|\1HERE|" | sort
}

threads() {
    tr '\0' '\n' < "$1" | sed -n 's/^OMP_NUM_THREADS=//p'
}

# logs DIR: its files, and what is in them.
logs() {
    (cd "$1" && grep -r '' . | sed -E 's/job_[A-Za-z0-9_]{8}/job_X/' | sort)
}

# Shows itself: everything to files, and something to each stream.
shows='env -0 > "$OUT/$LAUNCHER.$RANK"; echo "out $*"; echo err >&2; printf half'

@test "two nodes, roles, redirects and tees: the same names, values, files and lines" {
    for launcher in torchrun ddprun; do
        flags="$launcher --rdzv-id job --log-dir $OUT/$launcher"
        LAUNCHER=$launcher two_nodes "$flags/0 --role a -r 3" \
            "$flags/1 --role b --nproc-per-node 2 -r 0:1,1:2 -t 1:3 --local-ranks-filter 1" \
            sh -c "$shows" sh 'a b' --nnodes ''
        [ "$status_0 $status_1" = "0 0" ]
        grep 'err$' "$OUT/node_1.err" > "$OUT/$launcher.err" # torchrun has much to say there itself
        mv "$OUT/node_1" "$OUT/$launcher.out"
        [ ! -s "$OUT/node_0" ]
    done
    for rank in 0 1 2; do
        diff <(environment "$OUT/torchrun.$rank") <(environment "$OUT/ddprun.$rank")
        environment "$OUT/ddprun.$rank" | grep -q "^TORCHELASTIC_RUN_ID=job$"
        [ "$(threads "$OUT/torchrun.$rank")" = "$([ $rank = 0 ] || echo 1)" ]
        [ $rank = 0 ] || [ "$(threads "$OUT/ddprun.$rank")" -ge 1 ]
    done
    [ -z "$(threads "$OUT/ddprun.0")" ]
    diff <(logs "$OUT/torchrun") <(logs "$OUT/ddprun")
    [ "$(cat "$OUT/ddprun.err")" = "[b1]:err" ]
    [ "$(logs "$OUT/ddprun" | grep -c 'attempt_0')" -eq 8 ]
    diff <(cat "$OUT/torchrun.out" && echo) "$OUT/ddprun.out" # ours ends half a line
    diff "$OUT/torchrun.err" "$OUT/ddprun.err"
}

@test "one node, nothing said: a job of its own name, a port of its own" {
    for launcher in torchrun ddprun; do
        LAUNCHER=$launcher $launcher --standalone --nproc-per-node 2 --no-python sh -c "$shows" \
            > "$OUT/$launcher.out" 2> /dev/null
    done
    for rank in 0 1; do
        diff <(environment "$OUT/torchrun.$rank") <(environment "$OUT/ddprun.$rank")
    done
    environment "$OUT/ddprun.0" | grep "^TORCHELASTIC_RUN_ID=UUID$"
    tr '\0' '\n' < "$OUT/ddprun.0" | grep -Eq '^MASTER_PORT=[1-9][0-9]{3,4}$'
}
