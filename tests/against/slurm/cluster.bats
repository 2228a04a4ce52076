#!/usr/bin/env bats
# local_cluster.sh and run.sh: a Slurm comes up, and nothing of it is left.

load slurm_helper

setup() {
    need_slurm
    export OUT=$BATS_TEST_TMPDIR TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    dir=$TMPDIR/ddp-cluster-$(id -u)
    before=$(ls -lR /etc/slurm 2>/dev/null || true)
}

# After every test: no folder or process is left, and the machine's own Slurm is unchanged.
teardown() {
    cd "$repository"
    for left in "$TMPDIR"/ddp-cluster-*; do
        DDP_CLUSTER_DIR=$left $cluster down # of a test that failed
    done
    eventually nothing_left && [ "$before" = "$(ls -lR /etc/slurm 2>/dev/null || true)" ]
}

nothing_left() {
    left=$(ls -A "$TMPDIR")$(daemons)$(job_processes)
    [ -z "$left" ] || { echo "left: $left" && return 1; }
}

# The daemons that have something to do with this test's folder.
daemons() {
    grep -lsF "$TMPDIR" /proc/[0-9]*/cmdline | cut -d / -f 3 |
        xargs -r ps -o pid=,comm= -p | grep -E 'slurm|munge' || true
}

one_line() {
    echo "$output"
    [ "$(echo "$output" | wc -l)" -eq 1 ]
}

@test "up, twice; status; env; a job; down, twice" {
    for _ in 1 2; do
        run -0 timeout 200 $cluster up 3>&-
        [[ $output == "Two nodes are ready"*"$cluster env"*sbatch*"$cluster down"* ]]
    done
    [ "$(daemons | wc -l)" -eq 4 ]
    [ "$(stat -c %a "$dir")" = 700 ]
    run -0 $cluster status
    [ "$(echo "$output" | grep -cE '^node[12] .* idle ')" -eq 2 ]
    eval "$($cluster env)"
    [ "$SLURM_CONF" = "$dir/slurm.conf" ]
    run -0 --separate-stderr timeout 200 srun --nodes=2 sh -c 'echo $SLURM_PROCID $SLURMD_NODENAME'
    [ "$(echo "$output" | sort)" = "0 node1
1 node2" ]
    for _ in 1 2; do
        run -0 timeout 200 $cluster down
        [ -z "$output" ]
        nothing_left
    done
}

@test "an ordinary user has one, too" {
    [ "$(id -u)" -eq 0 ] || skip "this is one"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$OUT"
    cp ${cluster%.sh}*.sh "$OUT" # the repository may be out of that user's reach
    chown nobody "$TMPDIR"
    run -0 timeout 300 setpriv --reuid=nobody --regid=65534 --clear-groups sh -c "set -e
        cd $TMPDIR
        $OUT/local_cluster.sh up
        eval \"\$($OUT/local_cluster.sh env)\"
        sbatch --wait --nodes=2 --output=log --wrap 'srun id -un'
        cat log
        rm log
        $OUT/local_cluster.sh down" 3>&-
    echo "$output"
    [ "$(echo "$output" | grep -c '^nobody$')" -eq 2 ]
    nothing_left
}

@test "without a cluster, status and env say so; other words are refused" {
    for command in status env; do
        run -1 $cluster $command
        one_line
        [[ $output == *"no cluster is up"* ]]
    done
    run -2 $cluster upp
    [[ $output == Usage:* ]]
    mkdir "$OUT/mine"
    echo precious >"$OUT/mine/file"
    DDP_CLUSTER_DIR=$OUT/mine run -1 $cluster up
    DDP_CLUSTER_DIR=$OUT/mine run -0 $cluster down
    DDP_CLUSTER_DIR=mine run -1 $cluster up
    one_line
    [ "$(cat "$OUT/mine/file")" = precious ]
}

@test "a daemon that cannot start is named with its reason, and nothing is left" {
    mkdir "$OUT/bin"
    printf '#!/bin/sh\necho no power; exit 1\n' >"$OUT/bin/slurmd"
    chmod +x "$OUT/bin/slurmd"
    PATH=$OUT/bin:$PATH run -1 timeout 300 $cluster up 3>&-
    one_line
    [[ $output == *"node1 does not get ready: no power" ]]
    DDP_CLUSTER_DIR=$TMPDIR/$(printf '%0100d' 7) run -1 timeout 200 $cluster up 3>&- # too long for a socket
    [[ $output == *"munged does not get ready: "* ]]
    nothing_left
}

@test "after a kill, down finds what is left, and up starts anew" {
    pretend_train 'touch $OUT/up_$SLURM_PROCID; exec sleep 1000'
    $cluster up 3>&-
    eval "$($cluster env)"
    (cd "$OUT" && sbatch "$OUT/04/train.slurm")
    for rank in 0 1 2 3; do eventually test -e "$OUT/up_$rank"; done
    daemons | awk '{ print $1 }' | xargs kill -KILL
    [ "$(job_processes | wc -l)" -ge 4 ]
    timeout 200 $cluster up 3>&-
    [ -z "$(job_processes)" ]
    timeout 200 srun --nodes=2 true
}

@test "a node whose daemon is gone: the job ends, and says which" {
    $cluster up 3>&-
    eval "$($cluster env)"
    kill -KILL "$(cat "$dir/node2.pid")"
    pretend_train "$(up_before 0 1)
exec $repository/04_slurm_multinode/train --model linear --timeout 5"
    run timeout 300 04_slurm_multinode/submit.sh --output="$OUT/log" --error="$OUT/log" \
        "$OUT/04/train.slurm" 3>&-
    echo "$output"
    [ "$status" -ne 0 ]
    [ "$status" -ne 124 ]
    [[ $output == *"fatal: ranks 2 and 3 of 4 did not come within 5 s"* ]]
    [[ $output == *"failed on node node2"* ]]
}

@test "run.sh brings its own cluster, from any folder, and takes it down" {
    mkdir "$OUT/here"
    cd "$OUT/here"
    run -0 timeout 300 ../../../../..$repository/04_slurm_multinode/run.sh 1 2 --model linear --epochs 1 \
        --checkpoint-dir saved 3>&-
    echo "$output"
    [[ $output == *"two nodes on this machine, up for this job alone"*"[CPU1] Epoch 0 "* ]]
    [ -e saved/linear_random.safetensors ]
    nothing_left
}

@test "run.sh uses the cluster that is up; told to end, it cancels the job" {
    $cluster up 3>&-
    (cd "$OUT" && exec timeout -k 10 300 "$repository/04_slurm_multinode/run.sh" 2 1 --epochs 1000 \
        --checkpoint-dir "$OUT" >"$OUT/log" 2>&1 3>&-) &
    eventually grep -q '^\[CPU1\] Epoch 0 ' "$OUT/log"
    kill -TERM $!
    wait $! || true
    eval "$($cluster env)"
    eventually eval '[ -z "$(squeue -h)" ]'
    ! grep -q 'for this job alone' "$OUT/log" || false
    [ "$(daemons | wc -l)" -eq 4 ]
}

@test "run.sh told to end takes its own cluster down" {
    for signal in TERM INT; do
        rm -f "$OUT/log"
        (cd "$OUT" && exec timeout -k 30 300 python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL) # a shell has it ignored behind a "&"
os.execvp(sys.argv[1], sys.argv[1:])' "$repository/04_slurm_multinode/run.sh" 2 1 --epochs 1000 \
            --checkpoint-dir "$OUT" >"$OUT/log" 2>&1 3>&-) &
        eventually grep -q '^\[CPU1\] Epoch 0 ' "$OUT/log"
        kill -$signal $!
        status=0
        wait $! || status=$?
        [ "$status" -eq $((128 + $(kill -l $signal))) ]
        eventually nothing_left
    done
}
