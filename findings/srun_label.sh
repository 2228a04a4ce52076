#!/bin/sh
# Tool:  srun --label of Slurm 22.05.8 (Debian 12: slurm-wlm)
# Guess: a line stays a line, with the rank before it: so a log of JSON lines can be read again by rank.
# Seen:  it breaks lines after each 1024 letters, and labels the pieces. Without --label they stay whole.
# > srun, a line of 1000 letters: 1
# > srun --label, a line of 1000 letters: 1
# > srun, a line of 3000 letters: 1
# > srun --label, a line of 3000 letters: 3
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
PATH=$PATH:/usr/sbin
command -v munged slurmctld >/dev/null || cannot "no Slurm"
slurmd -V 2>/dev/null | grep -qx 'slurm-wlm 22\.05\.8' || cannot "another slurmd, or none"
export SLURM_CONF="$tmp/slurm.conf"

ports=$(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))')
cat >"$SLURM_CONF" <<EOF
ClusterName=one
SlurmctldHost=$(uname -n | cut -d . -f 1)(127.0.0.1)
SlurmctldPort=${ports#* }
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthInfo=socket=$tmp/munge.socket
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeName=one NodeHostname=$(uname -n | cut -d . -f 1) NodeAddr=127.0.0.1 Port=${ports% *}
PartitionName=all Nodes=one Default=YES
EOF
chmod 700 "$tmp" && mkdir "$tmp/state"
(umask 077 && head -c 128 /dev/urandom >"$tmp/munge.key")
(
    pids=
    # shellcheck disable=SC2086 # words
    trap 'kill $pids; wait' TERM
    munged -F --force --key-file="$tmp/munge.key" --socket="$tmp/munge.socket" --pid-file="$tmp/munged.pid" \
        --log-file="$tmp/munged.log" --seed-file="$tmp/munge.seed" &
    pids="$pids $!"
    slurmctld -D &
    pids="$pids $!"
    slurmd -D -N one &
    pids="$pids $!"
    wait
) >"$tmp/log" 2>&1 &
launcher=$!
tries=0
until [ "$(sinfo -h -o %T 2>"$tmp/errors")" = idle ]; do
    [ $((tries += 1)) -le 15 ] || cannot "Slurm does not get ready: $(tail -n 20 "$tmp/log")"
    sleep 1
done
for letters in 1000 3000; do
    for command in srun 'srun --label'; do
        # shellcheck disable=SC2086 # words
        lines=$($command -n 1 python3 -c "print('x' * $letters)" 2>"$tmp/errors" | wc -l)
        echo "$command, a line of $letters letters: $lines"
    done
done | verdict
