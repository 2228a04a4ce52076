#!/bin/sh
# Usage: 04_slurm_multinode/local_cluster.sh up|down|status|env|run COMMAND
#   up      starts a Slurm cluster of two nodes on this machine, and waits until both are ready
#   env     prints the setting by which sbatch, srun and squeue find it: eval "$(local_cluster.sh env)"
#   status  shows its nodes and jobs
#   down    cancels its jobs, stops it and removes its files
#   run     up, the command with its arguments, down; exits with the command's status
# To try job scripts without a cluster. It is the real Slurm, run by this user, with its own ports, munge key
# and folder (DDP_CLUSTER_DIR, else /tmp/ddp-cluster-UID); another Slurm on the machine is left alone. Only
# users who can read the folder can submit jobs.
# shellcheck disable=SC2013,SC2016 # pids are words; conditions are evaluated later
set -eu
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
dir=${DDP_CLUSTER_DIR:-${TMPDIR:-/tmp}/ddp-cluster-$(id -u)}
export SLURM_CONF="$dir/slurm.conf" PATH="$PATH:/usr/sbin:/sbin"

die() {
    echo "$0: $*" >&2
    exit 1
}

# The pids of the cluster's daemons. A pid file alone may be stale and name another process.
daemons() {
    for file in "$dir"/*.pid; do
        [ ! -e "$file" ] || grep -lsF "$dir/" "/proc/$(cat "$file" 2>/dev/null)/cmdline" | cut -d / -f 3
    done
}

# wait_for SECONDS CONDITION: a line of shell, evaluated until it is true.
wait_for() {
    end=$(($(date +%s) + $1))
    until eval "$2"; do
        [ "$(date +%s)" -lt $end ] || return 1
        sleep 0.1
    done
}
no_daemons='[ -z "$(daemons)" ]'
no_jobs='[ -z "$(timeout 10 squeue -h 2>&1)" ]'
controller_answers='timeout 10 scontrol ping >/dev/null 2>&1'
nodes_are_ready='[ "$(timeout 10 sinfo -h -N -o %T | grep -cxE "idle|mixed|allocated|completing")" -eq 2 ]'

# Kills the processes of jobs whose daemon was killed: tasks, found by their environment, and the slurmstepd
# above them, found by their working folder, which is the cluster's.
kill_jobs() {
    {
        grep -lsz '^SLURM_JOB_ID=' /proc/[0-9]*/environ | xargs -r grep -lsxzF "SLURM_CONF=$SLURM_CONF"
        for comm in $(grep -lsx slurmstepd /proc/[0-9]*/comm); do
            [ "$(readlink "${comm%comm}cwd")" != "$dir" ] || echo "$comm"
        done
    } | cut -d / -f 3 | xargs -r kill -KILL 2>/dev/null || true
}

stop() {
    if [ -n "$(daemons)" ] && eval "$controller_answers"; then
        timeout 10 scancel --partition=local || true
        wait_for 10 "$no_jobs" || true
    fi
    daemons | xargs -r kill || true
    wait_for 10 "$no_daemons" || daemons | xargs -r kill -KILL || true
    kill_jobs
    rm -rf "$dir"
}

# start NAME COMMAND...: starts a daemon. It inherits no descriptors, else a reader of this script's output
# would wait for it.
start() {
    name=$1
    shift
    "$@" </dev/null >>"$dir/$name.log" 2>&1 3>&- 9>&- || fail "$name"
}

fail() {
    echo "$0: $1 does not get ready: $(tail -n 2 "$dir/$1.log")" >&2
    stop
    exit 1
}

up() {
    for program in slurmctld slurmd munged; do
        command -v $program >/dev/null || die "there is no $program here: ./setup.sh --slurm gets it"
    done
    [ "$(daemons | wc -l)" -ne 4 ] || ! wait_for 120 "$nodes_are_ready" || return 0
    [ ! -e "$SLURM_CONF" ] || stop # left by a cluster that was killed or switched off
    mkdir -m 700 "$dir" || die 'DDP_CLUSTER_DIR may name another folder, which is not there yet'
    trap 'stop; exit 1' INT TERM HUP
    "$here/local_cluster_conf.sh" "$dir" >"$SLURM_CONF"
    mkdir "$dir/state"
    cp "$here/local_cluster_task.sh" "$dir/task.sh" # slurm.conf allows no path with a space
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")

    start munged munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
        --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed"
    start slurmctld slurmctld -f "$SLURM_CONF"
    wait_for 120 "$controller_answers" || fail slurmctld
    start node1 slurmd -f "$SLURM_CONF" -N node1
    start node2 slurmd -f "$SLURM_CONF" -N node2
    wait_for 120 "$nodes_are_ready" || fail "$(sinfo -h -N -o '%N %T' | awk '!/idle/ { print $1; exit }')"
}

run() {
    status=0 told=''
    "$@" &
    child=$!
    trap 'kill $child 2>/dev/null || true' TERM HUP
    trap 'told=130; kill $child 2>/dev/null || true' INT # the child ignores SIGINT: it was started with &
    while kill -0 $child 2>/dev/null; do # a signal ends the wait, but not the child at once
        status=0
        wait $child || status=$?
    done
    trap '' INT TERM HUP # nothing interrupts the cleanup
    stop
    exit "${told:-$status}"
}

case $dir in /*) ;; *) die "DDP_CLUSTER_DIR is $dir: it must begin with /" ;; esac
if [ -e "$dir" ] && [ -z "$(find "$dir" -maxdepth 0 -type d -user "$(id -u)")" ]; then
    die "$dir is somebody else's: name another folder in DDP_CLUSTER_DIR"
fi
case ${1:-} in
up | run | down) # one at a time
    exec 9<"$here"
    flock -w 120 9 || die 'another one is at work'
    ;;
status | env) [ -e "$SLURM_CONF" ] || die "no cluster is up: '$0 up' starts one" ;;
*) sed -n '2,7s/^# //p' "$0" >&2 && exit 2 ;;
esac
case $1 in
up)
    up
    echo "Two nodes are ready, node1 and node2. Next:
    eval \"\$($0 env)\"
    sbatch $here/train.slurm && squeue
    $0 down"
    ;;
env) echo "export SLURM_CONF='$SLURM_CONF'" ;;
status) sinfo -N -l && squeue ;;
down) [ ! -e "$SLURM_CONF" ] || stop ;;
run)
    up
    exec 9<&-
    shift
    run "$@"
    ;;
esac
