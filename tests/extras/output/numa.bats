# ddprun --numa-binding on a machine that has two NUMA nodes only in a folder: which cores its ranks have.
# tests/against/torch/numa.py has larger machines, and torchrun's choice.

bats_require_minimum_version 1.5.0
load ../../steps/ddprun_helper

# a, b: the first two cores of this process, each a node of its own.
two_nodes() {
    a=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:1])')
    b=$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[1:2])')
    [ -n "$b" ] || skip "this process may use one core"
    export DDP_SYS=$OUT/sys
    local node=0 cpu
    for cpu in $a $b; do
        write "node/node$node/cpulist" $cpu
        write "cpu/cpu$cpu/topology/thread_siblings_list" $cpu
        write "cpu/cpu$cpu/topology/physical_package_id" 0
        write "cpu/cpu$cpu/cache/index0/type" Unified
        write "cpu/cpu$cpu/cache/index0/level" 3
        write "cpu/cpu$cpu/cache/index0/shared_cpu_list" $cpu
        node=$((node + 1))
    done
    write node/online 0-1
}

write() { # FILE TEXT, in the folder of devices
    mkdir -p "$(dirname "$DDP_SYS/devices/system/$1")"
    echo "$2" >"$DDP_SYS/devices/system/$1"
}

gpus() { # NODE...: a GPU on each
    local bus=1 node
    for node; do
        mkdir -p "$DDP_SYS/bus/pci/drivers/nvidia/0000:0$bus:00.0"
        echo "$node" >"$DDP_SYS/bus/pci/drivers/nvidia/0000:0$bus:00.0/numa_node"
        bus=$((bus + 1))
    done
}

# cores FLAGS...: "0 on 0,1 on 1,": the cores of each rank, by rank.
cores() {
    ddprun "$@" sh -c 'echo "$RANK on $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"' | sort -n | tr '\n' ','
}

refused() { # ARGUMENTS...: in one line, which must contain $why
    run -2 ddprun "$@" true
    echo "$output"
    [ "${#lines[@]}" -eq 1 ] && [[ $output == "ddprun: --numa-binding"*"$why"* ]]
}

@test "ranks without GPUs are spread over the nodes, neighbors together" {
    two_nodes
    for mode in node exclusive core-complex; do
        [ "$(cores --nproc-per-node 2 --numa-binding $mode)" = "0 on $a,1 on $b," ]
    done
    [ "$(cores --nproc-per-node 4 --numa-binding=node)" = "0 on $a,1 on $a,2 on $b,3 on $b," ]
    [ "$(PET_NUMA_BINDING=node cores --nproc-per-node 2)" = "0 on $a,1 on $b," ]
    both=$(cores --nproc-per-node 1)
    [ "$(cores --nproc-per-node 1 --numa_binding socket)" = "0 on $([ $((b - a)) -eq 1 ] && echo "$a-$b" || echo "$a,$b")," ]
    [ "$(cores --nproc-per-node 1)" = "$both" ] # and nothing is bound without the flag
}

@test "a rank is near its GPU, also when it starts again" {
    two_nodes
    gpus 1 0
    [ "$(cores --nproc-per-node 2 --numa-binding node)" = "0 on $b,1 on $a," ]
    [ "$(CUDA_VISIBLE_DEVICES=1,0 cores --nproc-per-node 2 --numa-binding node)" = "0 on $a,1 on $b," ]
    [ "$(CUDA_VISIBLE_DEVICES=1 cores --nproc-per-node 1 --numa-binding node)" = "0 on $a," ]
    [ "$(CUDA_VISIBLE_DEVICES= cores --nproc-per-node 2 --numa-binding node)" = "0 on $a,1 on $b," ] # none for the ranks
    run -0 ddprun --nproc-per-node 2 --numa-binding node true
    DDPRUN=05_fault_tolerance/ddprun run -0 cores --nproc-per-node 2 --numa-binding node --max-restarts 1
    [ "$output" = "0 on $b,1 on $a," ]
    DDPRUN=05_fault_tolerance/ddprun run -0 ddprun --max-restarts 1 --numa-binding node sh -c '
        [ $TORCHELASTIC_RESTART_COUNT = 1 ] && grep Cpus_allowed_list /proc/self/status'
    [[ $output == *"Cpus_allowed_list:"[[:space:]]"$b" ]]
}

@test "refused in a line: one node, other names, too few cores, GPUs by name" {
    why="must be node, socket, exclusive or core-complex" refused --numa-binding numa
    two_nodes
    why="exclusive: node 0 has fewer cores than ranks or GPUs, 1 for 2: take node" refused --nproc-per-node 4 --numa-binding exclusive
    gpus 1 0
    CUDA_VISIBLE_DEVICES=GPU-1,GPU-2 why="give numbers, as in 0,1" refused --nproc-per-node 2 --numa-binding node
    rm "$DDP_SYS/devices/system/cpu/cpu$a/cache/index0/type"
    why="does not say which cores share a cache" refused --nproc-per-node 2 --numa-binding core-complex
    write node/online 0
    why="on one NUMA node, so there is no choice; leave it out" refused --numa-binding node
    DDP_SYS=$OUT/nothing why="on one NUMA node" refused --numa-binding exclusive
}
