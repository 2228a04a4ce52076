#!/bin/sh
# Usage: 04_slurm_multinode/local_cluster_task.sh      Slurm runs it before each task on local_cluster.sh.
# Its output is added to the task's environment: two nodes on one machine need special settings.
set -eu

# Open MPI's ranks with the same number on two nodes would use each other's shared memory, and it may find no
# route between IPv4 and IPv6 addresses of one interface. Loopback is enough here.
echo export OMPI_MCA_btl=tcp,self
echo export OMPI_MCA_btl_tcp_if_include=lo

# Slurm counts the GPUs of each node from 0, but node2 has the second half of the machine's GPUs.
if [ "$SLURMD_NODENAME" = node2 ] && [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
    half=$(($(find /dev -maxdepth 1 -name 'nvidia[0-9]*' | wc -l) / 2))
    echo "export CUDA_VISIBLE_DEVICES=$(echo "$CUDA_VISIBLE_DEVICES" | tr , '\n' |
        awk -v half=$half '{ print $1 + half }' | paste -s -d ,)"
fi
