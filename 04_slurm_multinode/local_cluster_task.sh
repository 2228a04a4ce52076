#!/bin/sh
# Usage: 04_slurm_multinode/local_cluster_task.sh      Run by Slurm before each task on local_cluster.sh.
# What it prints becomes the task's environment: two nodes that are one machine need some care.
set -eu

# Open MPI's ranks of one number on two nodes would take each other's shared memory for their own; and
# between IPv4 and IPv6 addresses of one interface it may find no way: loopback is enough here.
echo export OMPI_MCA_btl=tcp,self
echo export OMPI_MCA_btl_tcp_if_include=lo

# Slurm counts the GPUs of each node from 0, but node2's are the second half of the machine's.
if [ "$SLURMD_NODENAME" = node2 ] && [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    half=$(($(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l) / 2))
    echo "export CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' |
        awk -v half=$half '{ print $1 + half }' | paste -s -d ,)"
fi
