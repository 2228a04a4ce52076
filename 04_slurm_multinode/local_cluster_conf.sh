#!/bin/sh
# Usage: 04_slurm_multinode/local_cluster_conf.sh DIR      Prints the slurm.conf of local_cluster.sh.
# DIR is the cluster's folder. man slurm.conf explains each line.
set -eu
dir=$1

# A free port, below the ports that the kernel assigns itself.
free_port() {
    while port=$(shuf -i 10000-19999 -n 1); do
        grep -q ":$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 2>/dev/null || break
    done
    echo "$port"
}

# Each node has half of the machine's GPUs, if there are two or more; DIR/gres.conf says which.
share_gpus() {
    half=$(($(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l) / 2))
    [ $half -gt 0 ] || return 0
    echo "NodeName=node1 Name=gpu File=/dev/nvidia[0-$((half - 1))]" >"$dir/gres.conf"
    echo "NodeName=node2 Name=gpu File=/dev/nvidia[$half-$((2 * half - 1))]" >>"$dir/gres.conf"
    printf 'GresTypes=gpu\nNodeName=DEFAULT Gres=gpu:%d\n' $half
}

# The daemons listen only at the address of this machine's own name, which is often loopback.
host=$(uname -n) listen=CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
address=$(getent ahostsv4 "$host" | awk 'NR == 1 { print $1 }')
[ -n "$address" ] || { address=127.0.0.1 && listen=''; }
user=$(id -un)
memory=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
# Since Slurm 23 slurmd requires control groups even if no plugin uses them; older ones cannot turn them off.
case $(slurmd -V) in
*" 1"[0-9].* | *" 2"[0-2].*) ;;
*) echo CgroupPlugin=disabled >"$dir/cgroup.conf" ;;
esac

cat <<END
# The controller, which queues the jobs. All daemons run as, and serve, the user who started the cluster.
ClusterName=ddp_local
SlurmctldHost=${host%%.*}($address)
SlurmctldPort=$(free_port)
$listen
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket,cred_expire=10

# They write all their files to one folder; %n is a node's name.
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/%n
TmpFS=$dir/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/%n.log
MailProg=/bin/true

# Nothing that needs root, systemd or control groups.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
TaskProlog=$dir/task.sh

# Jobs get cores, start at once (after a requeue 10 s later, cred_expire), are tried again every 5 s (not 60)
# if they could not start, and have 5 s from SIGTERM to SIGKILL. Job scripts derive ports from the job's
# number, so two clusters on one machine begin with different ones. A job that never fits is refused at once.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=5
FirstJobId=$(shuf -i 1-9000 -n 1)
EnforcePartLimits=ALL
KillWait=5
ReturnToService=2

# Two nodes on one machine, with more cores than it has, so that jobs may share them.
SlurmdParameters=config_overrides
$(share_gpus)
NodeName=DEFAULT CPUs=16 RealMemory=$memory
NodeName=node1 NodeHostname=${host%%.*} NodeAddr=$address Port=$(free_port)
NodeName=node2 NodeHostname=${host%%.*} NodeAddr=$address Port=$(free_port)
PartitionName=local Nodes=ALL Default=YES
END
