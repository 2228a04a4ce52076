#!/usr/bin/env bats
# A run's messages at its start about its settings, and about settings that it has not read.

# shellcheck disable=SC2086,SC2154 # several words in LINEAR; bats sets output
bats_require_minimum_version 1.5.0

setup() {
    OUT=$BATS_TEST_TMPDIR
    TRAIN=03_torchrun_env/train DDPRUN=03_torchrun_env/ddprun
    LINEAR="--model linear --threads 1"
}

# on_terminal COMMAND...: what it prints on a wide one, without escapes.
on_terminal() {
    python3 -B tests/helpers/on_terminal.py 1000 "$@" </dev/null | tr -d '\r' | sed 's/\x1b\[[?0-9;]*[a-zA-Z]//g'
}

# through_pipe COMMAND...: its standard error.
through_pipe() {
    "$@" 2>&1 >"$OUT/printed" | cat
    return "${PIPESTATUS[0]}"
}

@test "rank 0 says what begins: ranks, batch, device, and what was set where" {
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
    $DDPRUN --nproc-per-node 2 $TRAIN "${words[@]}" 2>"$OUT/log" # a job's log has the same
    diff "$OUT/log" - <<<"[rank 0/2] 2 ranks, connected by tcp
[rank 0/2] $said"
    [ -z "$(through_pipe $DDPRUN --nproc-per-node 2 $TRAIN "${words[@]}")" ] # a program that reads it does not
    for job in SLURM_JOB_ID=7 PBS_JOBID=7.host LSB_JOBID=7; do # whose launchers have pipes
        [ "$(through_pipe env $job $DDPRUN --nproc-per-node 2 $TRAIN "${words[@]}")" = "$(cat "$OUT/log")" ]
    done
    for rank in OMPI_COMM_WORLD_RANK=0 PMI_RANK=0; do # so does mpirun
        run -0 through_pipe env $rank ${rank/RANK=0/SIZE=1} $TRAIN "${words[@]}"
        [[ $output == *"trains linear on random, "* ]]
    done
}

@test "the next start of any step removes what a killed run has left of its checkpoints" {
    mkdir "$OUT/c"
    for step in 01_single_gpu 02_multi_gpu_spawn 03_torchrun_env 04_slurm_multinode 05_fault_tolerance; do
        : >"$OUT/c/linear_random.safetensors.12.tmp"
        case $step in 01* | 02*) launch= ;; *) launch="$DDPRUN --nproc-per-node 1" ;; esac
        $launch $step/train 0 $LINEAR --checkpoint-dir "$OUT/c"
        [ ! -e "$OUT/c/linear_random.safetensors.12.tmp" ]
    done
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
assert set(settings) == listed - {"config", "help", "version"}, set(settings) ^ listed
END
    echo data >"$OUT/precious"
    ln -sf "$OUT/precious" "$OUT/m/run.json" # somebody else's link is removed, not followed
    $TRAIN 1 $LINEAR --metrics-dir "$OUT/m" --max-steps 1 --checkpoint-dir "$OUT/c"
    [ "$(cat "$OUT/precious")" = data ]
    [ ! -L "$OUT/m/run.json" ]
}

@test "a config.yaml where the user stands, but that sets something and is not read: that is said" {
    local here=$PWD
    cp config.yaml "$OUT"
    cd "$OUT"
    run -0 through_pipe "$here/01_single_gpu/train" 0 $LINEAR
    [ -z "$output" ] # nothing but comments
    echo 'seed: 1' >>config.yaml
    run -0 through_pipe "$here/01_single_gpu/train" 0 $LINEAR
    [ "$output" = "train: the config.yaml in this folder is not read: --config config.yaml would" ]
    run -0 through_pipe "$here/$DDPRUN" --nproc-per-node 2 "$here/$TRAIN" 0 $LINEAR
    [ "$output" = "train: the config.yaml in this folder is not read: --config config.yaml would" ]
    run -0 through_pipe "$here/01_single_gpu/train" 0 $LINEAR --config config.yaml
    [ -z "$output" ]
    ln -sf "$here/config.yaml" config.yaml
    run -0 through_pipe "$here/01_single_gpu/train" 0 $LINEAR
    [ -z "$output" ]
}
