#!/usr/bin/env bats
# The job scripts of steps 04 and 05 with a simulated Slurm: what they do with the variables that it sets or does not
# set. tests/against/slurm has the real one.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
    mkdir -p "$OUT/bin" "$OUT/03_torchrun_env" "$OUT/04_slurm_multinode" "$OUT/05_fault_tolerance"
    cp 04_slurm_multinode/*.slurm 04_slurm_multinode/train.pbs 04_slurm_multinode/job_start.sh "$OUT/04_slurm_multinode"
    cp 05_fault_tolerance/train.slurm 05_fault_tolerance/restart.sh "$OUT/05_fault_tolerance"
    for step in 04_slurm_multinode 05_fault_tolerance; do # programs that use a secret
        program "$OUT/$step/train" '# ddp secret'
    done
    program "$OUT/bin/scontrol" 'case "$1 $2" in
"show job") echo "   Command=$SCRIPT" ;;
"show hostnames") echo node1 ;;
"show node") echo "   NodeAddr=10.0.0.1 NodeHostName=node1" ;;
requeue*) echo "$2" >>"$OUT/requeued" ;;
esac'
    for launcher in srun mpirun; do # says how it was started
        program "$OUT/bin/$launcher" 'echo "threads ${OMP_NUM_THREADS-none}, cores ${SRUN_CPUS_PER_TASK-none}, secret ${DDP_SECRET_FILE##*/}, port $MASTER_PORT: $*"
for name in RANK WORLD_SIZE LOCAL_RANK TORCHELASTIC_USE_AGENT_STORE; do ! printenv $name || echo "$name is left over"; done
exit ${STATUS:-0}'
    done
}

program() { # PATH TEXT
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

# job SCRIPT [VARIABLE=VALUE...] [-- ARGUMENTS]: as Slurm would start it on its first node.
job() {
    local script=$OUT/$1 variables=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do variables+=("$1") && shift; done
    [ $# -eq 0 ] || shift
    cd "$OUT"
    run env -i PATH="$OUT/bin:$PATH" HOME="$OUT" OUT="$OUT" SCRIPT="$script" SLURM_JOB_ID=17 \
        SLURM_JOB_NODELIST='node[1-2]' SLURM_NNODES=2 SLURM_TASKS_PER_NODE='2(x2)' MAX_RESTARTS=0 \
        "${variables[@]}" sh "$script" "$@"
    echo "$output"
}

all="04_slurm_multinode/train.slurm 04_slurm_multinode/train_ddprun.slurm 04_slurm_multinode/train_mpirun.slurm
    05_fault_tolerance/train.slurm"

@test "a job whose script says nothing of cores and tasks: Slurm's defaults" {
    for script in $all; do
        job $script -- --epochs 3
        [ "$status" -eq 0 ]
        [[ $output == *"--epochs 3"* ]]
    done
    job 04_slurm_multinode/train.slurm
    [[ $output == *"threads none, cores none, "* ]]
    job 04_slurm_multinode/train.slurm SLURM_CPUS_PER_TASK=3
    [[ $output == *"threads none, cores 3, "* ]]
    job 04_slurm_multinode/train_mpirun.slurm
    [[ $output == *"threads 1, "* ]]
    job 04_slurm_multinode/train_ddprun.slurm
    [[ $output == *"threads 1, "*" --cpus-per-task=2 "*" --nproc-per-node 2 "* ]]
    job 04_slurm_multinode/train_ddprun.slurm SLURM_TASKS_PER_NODE=
    [[ $output == *" --cpus-per-task=1 "*" --nproc-per-node 1 "* ]]
    job 04_slurm_multinode/train_ddprun.slurm SLURM_NTASKS_PER_NODE=3 SLURM_CPUS_PER_TASK=4
    [[ $output == *"threads 4, "*" --cpus-per-task=12 "*" --nproc-per-node 3 "* ]]
    job 04_slurm_multinode/train_ddprun.slurm SLURM_TASKS_PER_NODE=3,1
    [ "$status" -eq 2 ]
    [[ $output == *"the nodes have 3,1 tasks: give --ntasks-per-node" ]]
}

@test "the mpirun of MPICH or Intel MPI gets its own flags" {
    echo node1 >"$OUT/nodes"
    sed -i '2i [ "$1" != --version ] || { echo "$VERSION" && exit; }\necho "pin: $I_MPI_PIN"' "$OUT/bin/mpirun"
    for version in "HYDRA build details:" "Intel(R) MPI Library for Linux* OS, Version 2021.19"; do
        job 04_slurm_multinode/train_mpirun.slurm VERSION="$version" SLURM_NTASKS=4 -- --epochs 3
        [ "$status" -eq 0 ]
        [[ $output == *"pin: off"*": -n 4 -genvall "*"/train --epochs 3" ]]
        job 04_slurm_multinode/train.pbs VERSION="$version" PBS_O_WORKDIR="$OUT" PBS_NODEFILE="$OUT/nodes" PBS_JOBID=17.server OPTIONS=7
        [ "$status" -eq 0 ]
        [[ $output == *"pin: off"*": -f $OUT/nodes -n 1 -genvall 04_slurm_multinode/train 7" ]]
    done
}

@test "what the submitting shell has of an outer job reaches no rank" {
    for script in $all; do
        [ $script != 04_slurm_multinode/train_ddprun.slurm ] || continue # whose launchers set them
        job $script RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 TORCHELASTIC_USE_AGENT_STORE=True
        [ "$status" -eq 0 ]
        [[ $output == *"port 20017: "* && $output != *"is left over"* ]]
    done
}

@test "a task of a job array that asks to be requeued is requeued alone" {
    job 05_fault_tolerance/train.slurm STATUS=75
    [ "$status" -eq 75 ]
    job 05_fault_tolerance/train.slurm STATUS=75 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=3
    [ "$status" -eq 75 ]
    [ "$(cat "$OUT/requeued")" = "17
17_3" ]
}

@test "each task of a job array has a checkpoint folder of its own" {
    for script in $all; do
        job $script SLURM_ARRAY_JOB_ID=15 SLURM_ARRAY_TASK_ID=3 -- 50 --lr 1
        [ "$status" -eq 0 ]
        [[ $output == *" 50 --lr 1 --checkpoint-dir checkpoints/task_3"* ]]
    done
    for option in "--checkpoint-dir=a b" --checkpoint_dir=c/d; do
        job 05_fault_tolerance/train.slurm SLURM_ARRAY_JOB_ID=15 SLURM_ARRAY_TASK_ID=3 -- "$option"
        [[ $output == *" $option --checkpoint-dir ${option#*=}/task_3" ]]
    done
    job 05_fault_tolerance/train.slurm SLURM_ARRAY_JOB_ID=15 SLURM_ARRAY_TASK_ID=3 -- --checkpoint-dir e 7
    [[ $output == *" --checkpoint-dir e 7 --checkpoint-dir e/task_3" ]]
    job 05_fault_tolerance/train.slurm -- 7
    [[ $output != *checkpoint* ]]
}

@test "PBS: so have the tasks of its arrays; their ports and secrets differ, too" {
    echo node1 >"$OUT/nodes"
    for task in 3 4; do
        job 04_slurm_multinode/train.pbs PBS_O_WORKDIR="$OUT" PBS_NODEFILE="$OUT/nodes" \
            SLURM_JOB_ID= PBS_JOBID="17[$task].server" PBS_ARRAY_INDEX=$task OPTIONS="50 --lr 1"
        [ "$status" -eq 0 ]
        [[ $output == *"port $((20017 + task)): "*" 50 --lr 1 --checkpoint-dir checkpoints/task_$task" ]]
        [[ $output == *"secret .ddp_secret_17[$task], port"* ]]
    done
}

@test "submit.sh waits for one job, not for an array" {
    for option in --array=1-3 "--array 1-3" "-a 1-3" -a1-3; do
        run 04_slurm_multinode/submit.sh $option "$OUT/04_slurm_multinode/train.slurm"
        [ "$status" -eq 2 ]
        [[ $output == *"submit it with sbatch"* ]]
    done
}
