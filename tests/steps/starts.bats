#!/usr/bin/env bats
# A run's messages at its start: its ranks, and those it waits for. extras/comfort prints more.

load bad_helper

@test "03 without a launcher: one rank trains alone, and says how to have more" {
    run -0 --separate-stderr "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    [ -e "$OUT/c/linear_random.safetensors" ]
    [ "$(sed '/] 1 rank, \|] trains /d' <<<"$stderr")" = "train: no launcher: one rank trains alone; for more, start this program with its run.sh, ddprun or torchrun" ]
}

@test "03 with some of the five variables: all that are missing, in one line" {
    RANK=0 run -1 "$TRAIN" 1 $LINEAR
    [ "$output" = "train: fatal: LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set: start this program with its run.sh, ddprun or torchrun" ]
    RANK=0 WORLD_SIZE= MASTER_ADDR=localhost MASTER_PORT=1 run -1 "$TRAIN" 1 $LINEAR --local-rank 0
    [ "$output" = "train: fatal: WORLD_SIZE is not set: start this program with its run.sh, ddprun or torchrun" ]
}

@test "03 under mpirun or srun, of which it knows nothing: several ranks do not each train alone" {
    OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 run -1 "$TRAIN" 1 $LINEAR
    [[ $output == "train: fatal: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set:"* ]]
    SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 run -1 "$TRAIN" 1 $LINEAR
    [[ $output == "train: fatal: RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT are not set:"* ]]
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    has_extras || return 0
    for hint in PMIX_RANK PMI_RANK PMI_FD PALS_RANKID JSM_NAMESPACE_RANK MLX_RANK FLUX_TASK_RANK; do # of prterun, flux and others
        run -1 env $hint=0 "$TRAIN" 1 $LINEAR
        [ "$output" = "train: fatal: $hint is set, so a launcher started this, but nothing says how many ranks there are: start this program with its run.sh, ddprun or torchrun" ]
    done
    for names in "HOROVOD_RANK HOROVOD_SIZE" "PADDLE_GLOBAL_RANK PADDLE_GLOBAL_SIZE" "X_RANK X_SIZE"; do
        run -1 env ${names% *}=1 ${names#* }=2 "$TRAIN" 1 $LINEAR
        [ "$output" = "train: fatal: ${names/ / and } are of an unknown launcher: start this program with its run.sh, ddprun or torchrun" ]
    done
    HOROVOD_RANK=0 HOROVOD_SIZE=1 NODE_RANK=1 SAYS=A_RANK= A_SIZE=2 run -0 "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    ACCELERATE_USE_CPU=true run -0 "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    [[ $output == *"accelerate has started one rank alone: for more, start this program with"* ]]
    SLURM_PROCID=0 SLURM_NTASKS=2 run -1 "$TRAIN" 1 $LINEAR # salloc's shell
    [[ $output == "train: fatal: SLURM_NTASKS is 2, but srun did not start this: start this program with its run.sh,"* ]]
    SLURM_PROCID=0 SLURM_NTASKS=1 PMIX_RANK='' "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
}

@test "03, which an outer job's variables tell that it is alone: its ranks do not each train" {
    five="RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port)"
    run -0 env RANK= WORLD_SIZE= LOCAL_RANK= MASTER_ADDR= MASTER_PORT= "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/d"
    has_extras || return 0
    run -2 env $five OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    [ "$output" = "train: RANK is 0 of 1, but a launcher started 2 (OMPI_COMM_WORLD_SIZE): unset RANK, WORLD_SIZE and LOCAL_RANK, or start one launcher on each node" ]
    [ ! -e "$OUT/c" ]
    run -0 env $five OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
}

@test "a rank that waits says after 5 s for whom, and how long at most" {
    local port
    port=$(free_port)
    TRAIN=05_fault_tolerance/train # bad_ports.bats has step 03
    start_rank first 0 2 MASTER_PORT="$port"
    until_true 100 grep -q "waits for rank 1 of 2, .* s at most (--timeout)" "$OUT/first"
    start_rank second 1 2 MASTER_PORT="$port"
    wait
    [ "$(cat "$OUT/first.status" "$OUT/second.status")" = "0
0" ]
}

@test "--init-from takes a folder that tools/export made, too" {
    01_single_gpu/train 1 $LINEAR --checkpoint-dir "$OUT/c"
    tools/export "$OUT/c/linear_random.safetensors" "$OUT/exported"
    for from in c/linear_random.safetensors exported; do
        01_single_gpu/train 0 $LINEAR --init-from "$OUT/$from" --checkpoint-dir "$OUT/from_$from"
        tools/export "$OUT/from_$from/epoch_0.safetensors" "$OUT/again_$(basename "$from")"
    done
    cmp "$OUT/exported/model.safetensors" "$OUT/again_exported/model.safetensors"
    cmp "$OUT/again_linear_random.safetensors/model.safetensors" "$OUT/again_exported/model.safetensors"
    mkdir "$OUT/empty"
    run -2 01_single_gpu/train 0 $LINEAR --init-from "$OUT/empty"
    [ "$output" = "train: $OUT/empty/model.safetensors: No such file or directory: name another file with --resume or --init-from" ]
}

@test "run_ddp.sh, from any folder: it builds step 03 and runs it" {
    local here=$PWD
    cd "$OUT"
    run -0 --separate-stderr env -u MAKEFLAGS -u MAKELEVEL "$here/run_ddp.sh" 1 0 $LINEAR --checkpoint-dir c
    [ -e c/epoch_0.safetensors ]
}

# job_start VARIABLE=VALUE...: what a job script does first.
job_start() {
    run --separate-stderr env "$@" sh -c 'set -eu; . 04_slurm_multinode/job_start.sh; echo goes on'
}

@test "a job script says what it got, and loads the modules that MODULES names" {
    job_start SLURM_JOB_ID=7 SLURM_JOB_NODELIST='node[1-2]' CUDA_VISIBLE_DEVICES=0,1
    [ "$status $output" = "0 goes on" ]
    [[ $stderr =~ ^"job 7 has nodes node[1-2]; its script is process "[0-9]+" on $(uname -n), CUDA_VISIBLE_DEVICES is 0,1"$ ]]
    printf 'beta\nalpha\nalpha\n' >"$OUT/nodes"
    job_start -u CUDA_VISIBLE_DEVICES PBS_JOBID=8.server PBS_NODEFILE="$OUT/nodes"
    [[ $stderr =~ ^"job 8.server has nodes alpha,beta; its script is process "[0-9]+" on $(uname -n), CUDA_VISIBLE_DEVICES is not set"$ ]]

    mkdir -p "$OUT/modules/init"
    echo 'module() { echo "module $*"; [ "$2" != nothing ]; }' >"$OUT/modules/init/sh"
    job_start MODULES="cuda openmpi" MODULESHOME="$OUT/modules"
    [ "$status ${lines[*]}" = "0 module load cuda openmpi goes on" ]
    job_start MODULES=nothing MODULESHOME="$OUT/modules"
    [ "$status ${lines[*]}" = "1 module load nothing" ]
    [[ $stderr == *'cannot load MODULES="nothing" here; module avail lists what there is' ]]
}
