#!/usr/bin/env bats
# DDP_EXPLAIN: the first two steps in words.

setup() {
    repo=$PWD
    cd "$BATS_TEST_TMPDIR" || exit
}

# told COMMAND...: its standard error goes to the file told, through a pipe: in a file rank 0 also prints its settings.
told() {
    "$@" 2>&1 >/dev/null | cat >told
    cat told
}

@test "DDP_EXPLAIN=1 tells the first two steps, on rank 0, in the order in which things happen" {
    DDP_EXPLAIN=1 told "$repo/03_torchrun_env/run.sh" 2 --max-steps 5
    ! grep -q 'rank 1/2' told || false
    sed 's/.*rank 0.2\] //; s/:.*//; s/ .*//' told | uniq | tr '\n' ' ' >order
    step='data step data forward backward bucket backward bucket backward wait optimizer'
    [ "$(cat order)" = "$step $step and " ]
    grep -q 'layer conv2, 18496 parameters' told
    DDP_EXPLAIN=1 told "$repo/01_single_gpu/run.sh" --max-steps 3
    ! grep -q 'ranks\|others\|bucket' told || false
    [ "$(grep -c 'optimizer: every parameter' told)" -eq 2 ]
}

@test "a demonstration of a few steps leaves the trained model alone" {
    mkdir checkpoints && echo trained >checkpoints/linear_random.safetensors
    DDP_EXPLAIN=1 told "$repo/01_single_gpu/run.sh" --model linear --max-steps 2
    [ "$(cat checkpoints/linear_random.safetensors)" = trained ] && [ -s checkpoints/explained/linear_random.safetensors ]
    DDP_EXPLAIN=1 told "$repo/01_single_gpu/run.sh" --model linear --max-steps 2 --checkpoint-dir mine
    [ -s mine/linear_random.safetensors ]
    "$repo/01_single_gpu/run.sh" --model linear --max-steps 2
    [ "$(cat checkpoints/linear_random.safetensors | head -c 7)" != trained ]
}

@test "DDP_EXPLAIN=1 beside a profile: one line says which of them to leave out" {
    DDP_EXPLAIN=1 told "$repo/01_single_gpu/run.sh" --max-steps 1 --profile profile.txt
    [ "$(cat told)" = "train: warning: DDP_EXPLAIN=1 tells nothing beside --trace or --profile: leave these out" ]
}
