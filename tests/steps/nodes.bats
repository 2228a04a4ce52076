#!/usr/bin/env bats
# Several nodes: simulated ones that are all this machine, and two hosts with networks of their own
# (tests/steps/two_hosts.sh). What a cluster adds to that is tested by make check-slurm.

bats_require_minimum_version 1.5.0
load ../helpers/few_rows
load ../helpers/free_port
load ../helpers/scaled_timeout

setup_file() {
    few_rows
}

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
    export OUT OMP_NUM_THREADS=1
    unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT GLOO_SOCKET_IFNAME LAUNCHER
    rows="${few[*]} --batch-size 8"
    options="--log-interval 1 --save-every 0 --checkpoint-dir $OUT/checkpoints --timeout 200"
}

losses() {
    sed -n 's/^Train Epoch.*Loss: //p' "$@"
}

# Losses of step 03 with RANKS ranks, to compare with.
expect() {
    timeout 300 03_torchrun_env/run.sh "$@" $options 2>"$OUT/err" | losses >"$OUT/expected"
    [ -s "$OUT/expected" ]
}

# on_hosts OPTIONS0 OPTIONS1 COMMAND...: a launcher with two ranks of the command on each host, with
# alpha as master by $master; the options are environment of the one and the other.
on_hosts() {
    local first=$1 second=$2 launcher="03_torchrun_env/ddprun --nnodes 2 --nproc-per-node 2 --master-addr $master"
    shift 2
    rm -f "$OUT/traffic"
    run timeout -k 5 300 tests/steps/two_hosts.sh \
        "$first $launcher --node-rank 0 $* >$OUT/alpha 2>&1; status=\$?; cat /proc/net/dev >$OUT/counted; mv $OUT/counted $OUT/traffic; exit \$status" \
        "$second $launcher --node-rank 1 $* >$OUT/beta 2>&1; until [ -e $OUT/traffic ]; do sleep 0.1; done"
    [ "$status" -ne 77 ] || skip "no network namespaces here"
    cat "$OUT/alpha" "$OUT/beta"
}

# Bytes that alpha received by an interface.
traffic() {
    sed -n "s/^ *$1: *\([0-9]*\) .*/\1/p" "$OUT/traffic"
}

@test "8 ranks on 4 nodes have the losses of 8 on one" {
    expect 8 --model linear --epochs 1
    run -0 timeout 300 04_slurm_multinode/nodes_here.sh 4 2 04_slurm_multinode/train --model linear --epochs 1 $options
    echo "$output"
    diff "$OUT/expected" <(echo "$output" | losses)
    for node in 0 1 2 3; do
        for local_rank in 0 1; do
            echo "$output" | grep -q "^\[rank $((2 * node + local_rank))/8\] node $node .*local rank $local_rank of 2"
        done
    done
}

@test "nodes of 3 ranks and 1, started by hand" {
    expect 4 $rows --max-steps 6
    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=4 MASTER_PORT
    MASTER_PORT=$(free_port)
    for rank in 1 2; do
        RANK=$rank LOCAL_RANK=$rank LOCAL_WORLD_SIZE=3 GROUP_RANK=0 \
            timeout 300 04_slurm_multinode/train $rows --max-steps 6 $options >"$OUT/$rank" 2>&1 3>&- &
    done
    RANK=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=1 \
        timeout 300 04_slurm_multinode/train $rows --max-steps 6 $options >"$OUT/3" 2>&1 3>&- &
    RANK=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 GROUP_RANK=0 \
        run -0 timeout 300 04_slurm_multinode/train $rows --max-steps 6 $options
    wait
    diff "$OUT/expected" <(echo "$output" | losses)
    grep -q 'node 1 .* local rank 0 of 1' "$OUT/3"
}

@test "a rank that never comes is named by all that are there" {
    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=4 MASTER_PORT
    MASTER_PORT=$(free_port) timeout=$(scaled_timeout 4)
    for rank in 0 2 3; do
        RANK=$rank LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 GROUP_RANK=$((rank / 2)) \
            timeout 200 04_slurm_multinode/train $rows --max-steps 1 $options --timeout "$timeout" >"$OUT/$rank" 2>&1 3>&- &
    done
    wait
    for rank in 0 2 3; do
        grep "fatal" "$OUT/$rank"
        grep -q "^\[rank $rank/4\] fatal: rank 1 of 4 did not come within $timeout s$" "$OUT/$rank"
    done
}

@test "run.sh pretends nodes where there is no Slurm, and passes the first failing rank's status on" {
    bin=$OUT/bin
    mkdir "$bin"
    for program in sh env dirname find grep head id sed nproc mktemp rm timeout wc; do
        ln -s "$(command -v $program)" "$bin/$program"
    done
    # run.sh looks in sbin for daemons, too: three nodes are more than the local cluster would have.
    run -0 env PATH="$bin" SLURM_CONF=/nowhere 04_slurm_multinode/run.sh 3 1 $rows --max-steps 1 $options
    echo "$output"
    [[ $output == *"no Slurm here: 3 launchers on this machine, one for each node"* ]]
    [ "$(echo "$output" | grep -c '^\[CPU[012]\] Epoch 0')" -eq 3 ]

    run -7 04_slurm_multinode/nodes_here.sh 2 2 sh -c '[ $RANK != 3 ] || exit 7; exec sleep 1000'
    run -2 env LAUNCHER=nosuch 04_slurm_multinode/run.sh
    [ "$(echo "$output" | wc -l)" -eq 1 ]
    run -0 04_slurm_multinode/run.sh --help
    [[ $output == Usage:*run.sh*Usage:*train*--bucket-cap-mb* ]]
}

@test "run.sh ends all nodes when it is told to end, and says so; Ctrl-C is 130" {
    for signal in INT TERM; do
        # Without timeout(1), which has to be running itself to pass a signal on: the ranks end by themselves.
        python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL) # a shell has it ignored behind a "&"
os.execvp(sys.argv[1], sys.argv[1:])' 04_slurm_multinode/nodes_here.sh 2 2 sh -c 'touch $OUT/up_$RANK; exec sleep 300' >"$OUT/log" 2>&1 3>&- &
        pid=$!
        for _ in $(seq 2000); do
            [ "$(ls "$OUT" | grep -c up_)" -ne 4 ] || break
            sleep 0.1
        done
        kill -$signal $pid
        status=0
        wait $pid || status=$?
        cat "$OUT/log"
        [ "$status" -eq $((128 + $(kill -l $signal))) ]
        grep -q "SIG$signal ends the launchers of all 2 nodes$" "$OUT/log"
        [ "$(grep -c '^ddprun: ended by SIGTERM$' "$OUT/log")" -eq 2 ]
        [ "$(grep -vc 'this job has no secret' "$OUT/log")" -eq 3 ] # nobody is to blame
        [ -z "$(grep -lsz "^RANK=" /proc/[0-9]*/environ | xargs -r grep -lsxz "OUT=$OUT" | grep -v "/$$/")" ]
        rm "$OUT"/up_*
    done
}

@test "train.pbs, with the variables of PBS" {
    command -v mpirun >/dev/null || skip "no mpirun"
    expect 4 --model linear --epochs 1
    yes localhost | head -n 4 >"$OUT/nodes"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # Open MPI 4, 5
    (cd "$OUT" && PBS_O_WORKDIR=${BATS_TEST_DIRNAME%/tests/*} PBS_JOBID=$((RANDOM % 10000)).server PBS_NODEFILE=$OUT/nodes \
        OPTIONS="--model linear --epochs 1 $options" timeout 300 sh "${BATS_TEST_DIRNAME%/tests/*}/04_slurm_multinode/train.pbs") \
        >"$OUT/out" 2>"$OUT/err"
    diff "$OUT/expected" <(losses "$OUT/out")
}

@test "the scripts of step 04 pass shellcheck" {
    command -v shellcheck >/dev/null || skip "no shellcheck"
    shellcheck 04_slurm_multinode/*.sh 04_slurm_multinode/*.slurm 04_slurm_multinode/train.pbs
    for script in 04_slurm_multinode/*.sh; do
        sed -n 2p "$script" | grep -q "^# Usage: .*$script"
    done
}

@test "two hosts, each of which knows its own name as loopback" {
    expect 4 --model linear --epochs 1
    for master in 10.77.0.1 alpha; do
        on_hosts '' '' 04_slurm_multinode/train --model linear --epochs 1 $options
        [ "$status" -eq 0 ]
        diff "$OUT/expected" <(losses "$OUT/alpha")
        grep -q '^\[rank 3/4\] node 1 .* is host beta: local rank 1 of 2' "$OUT/beta"
    done
}

@test "GLOO_SOCKET_IFNAME names the network of the gradients" {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "extras/interface is not in this build"
    master=10.77.0.1
    train="04_slurm_multinode/train $rows --max-steps 2 $options"
    on_hosts '' '' "$train" # a gradient has 4.8 MB
    [ "$status" -eq 0 ]
    [ "$(traffic wire)" -gt 4000000 ]
    [ "$(traffic fast)" -lt 100000 ]
    on_hosts GLOO_SOCKET_IFNAME=fast GLOO_SOCKET_IFNAME=nosuch0,fast,wire "$train" # the first there is
    [ "$status" -eq 0 ]
    [ "$(traffic wire)" -lt 100000 ]
    [ "$(traffic fast)" -gt 4000000 ]
}

@test "a rank whose address the others cannot reach is named within the timeout" {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "extras/interface is not in this build"
    master=10.77.0.1
    train="04_slurm_multinode/train $rows --max-steps 1 $options --timeout $(scaled_timeout 4)" # in which four ranks start
    for interface in blind:10.79.0.1 lo:127.0.0.1; do
        on_hosts GLOO_SOCKET_IFNAME=${interface%:*} '' "$train"
        [ "$status" -eq 1 ]
        there=${interface#*:} # both sides wait equally long: either may be the first to say it
        cat "$OUT/alpha" "$OUT/beta" | grep -E 'fatal: .*GLOO_SOCKET_IFNAME' |
            grep -E "cannot reach rank [01] at $there port|rank [23] did not connect to $there [0-9]+ within"
    done
    on_hosts GLOO_SOCKET_IFNAME=nosuch0 '' "$train"
    [ "$status" -eq 1 ]
    grep -q 'fatal: GLOO_SOCKET_IFNAME is "nosuch0": no interface' "$OUT/alpha"
}

@test "the job scripts have the same words for what they have in common" {
    common() {
        sed -n '/^# Rank 0 is on/,/^export MASTER_ADDR/p; /^unset SLURM_EXPORT_ENV/p' "04_slurm_multinode/$1.slurm"
    }
    [ "$(common train | wc -l)" -eq 7 ]
    [ "$(common train)" = "$(common train_ddprun)" ]
    [ "$(common train)" = "$(common train_mpirun)" ]
}

@test "no nodes, or nodes of no ranks: one line" {
    for sizes in "0 2" "2 0" "x 2"; do
        run -2 04_slurm_multinode/nodes_here.sh $sizes true
        [[ $output == *"must be whole numbers from 1 on, not \"${sizes% *}\" and \"${sizes#* }\"" ]]
    done
    run -2 04_slurm_multinode/nodes_here.sh
    [[ $output == "Usage: "* ]]
    run -2 04_slurm_multinode/run.sh 0
    [[ $output == *"must be whole numbers from 1 on, not \"0\" and \"2\"" ]]
}
