#!/usr/bin/env bats
# What a run says at its start: whom it has, what it was asked for, and what it has not read.

load bad_helper

@test "03 without a launcher: one rank trains alone, and says how to have more" {
    run -0 --separate-stderr "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
    [ -e "$OUT/c/linear_random.safetensors" ]
    [ "$stderr" = "train: no launcher: one rank trains alone; for more, start this program with its run.sh, ddprun or torchrun" ]
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
    OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "$TRAIN" 1 $LINEAR --checkpoint-dir "$OUT/c"
}

# on_terminal COMMAND...: what it prints there, without escapes.
on_terminal() {
    python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))' "$@" </dev/null | tr -d '\r' | sed 's/\x1b\[[?0-9]*[a-zA-Z]//g'
}

@test "on a terminal rank 0 says what begins: ranks, batch, device, and what was set where; not elsewhere" {
    echo 'seed: 3' >"$OUT/c.yaml"
    local words=(--config "$OUT/c.yaml" --epochs 0 --model linear --device cpu --checkpoint-dir "$OUT/c")
    local said="trains linear on random, batch 32 x 2 = 64, on cpu; set: --model linear, --epochs 0, $OUT/c.yaml:1: seed 3, \
--checkpoint-dir $OUT/c, --device cpu, --config $OUT/c.yaml"
    on_terminal $DDPRUN --nproc-per-node 2 $TRAIN "${words[@]}" >"$OUT/said"
    cat "$OUT/said"
    grep -qFx "[rank 0/2] 2 ranks, connected by tcp" "$OUT/said"
    grep -qFx "[rank 0/2] $said" "$OUT/said"
    [ "$(grep -c "set: " "$OUT/said")" -eq 1 ]
    on_terminal 02_multi_gpu_spawn/train --nproc 2 "${words[@]}" | grep -F "batch 32 x 2 = 64, on cpu; set: "
    on_terminal 01_single_gpu/train "${words[@]}" --global-batch-size 48 | grep -F "train: trains linear on random, batch 48 x 1 = 48"
    run -0 --separate-stderr $DDPRUN --nproc-per-node 2 $TRAIN "${words[@]}"
    [ -z "$stderr" ]
}

@test "run.json has all options of the step, as they would be typed" {
    printf 'lr: 0.05\n' >"$OUT/c.yaml"
    $DDPRUN --nproc-per-node 2 $TRAIN 1 $LINEAR --config "$OUT/c.yaml" --max-steps 1 --metrics-dir "$OUT/m" --checkpoint-dir "$OUT/c"
    python3 - "$OUT/m/run.json" <<'END'
import json, re, subprocess, sys
settings = json.load(open(sys.argv[1]))["settings"]
given = {"lr": "0.05", "model": "linear", "epochs": "1", "threads": "1", "max-steps": "1", "dropout": "on", "batch-size": "32",
         "resume": "none", "bucket-cap-mb": "25", "global-batch-size": "none", "momentum": "0"}
assert {name: settings.get(name) for name in given} == given, settings
listed = set(re.findall(r"^  --([a-z0-9-]+) ", subprocess.check_output(["03_torchrun_env/train", "--help"], text=True), re.M))
assert set(settings) == listed - {"config", "help"}, set(settings) ^ listed
END
}

@test "a config.yaml where the user stands, but that sets something and is not read: that is said" {
    local here=$PWD
    cp config.yaml "$OUT"
    cd "$OUT"
    run -0 --separate-stderr "$here/01_single_gpu/train" 0 $LINEAR
    [ -z "$stderr" ] # nothing but comments
    echo 'seed: 1' >>config.yaml
    run -0 --separate-stderr "$here/01_single_gpu/train" 0 $LINEAR
    [ "$stderr" = "train: the config.yaml in this folder is not read: --config config.yaml would" ]
    run -0 --separate-stderr "$here/$DDPRUN" --nproc-per-node 2 "$here/$TRAIN" 0 $LINEAR
    [ "$stderr" = "train: the config.yaml in this folder is not read: --config config.yaml would" ]
    run -0 --separate-stderr "$here/01_single_gpu/train" 0 $LINEAR --config config.yaml
    [ -z "$stderr" ]
    ln -sf "$here/config.yaml" config.yaml
    run -0 --separate-stderr "$here/01_single_gpu/train" 0 $LINEAR
    [ -z "$stderr" ]
}

@test "--show-topology: rank 0 lists the ranks" {
    local line='node [0-9?]+, host [^ ]+, local rank [01], cpu, cores [0-9,-]+'
    for launched in "$TRAIN" 04_slurm_multinode/train 05_fault_tolerance/train; do
        run -0 --separate-stderr $DDPRUN --nproc-per-node 2 $launched 0 $LINEAR --device cpu --show-topology on --checkpoint-dir "$OUT/c"
        [ "$(grep -cE "^\[rank 0/2\] rank [01]: $line\$" <<<"$stderr")" -eq 2 ]
    done
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
