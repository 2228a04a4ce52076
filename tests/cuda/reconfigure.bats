#!/usr/bin/env bats
# RECONFIGURE=1 with --device cuda: ranks on GPUs survive over nccl, and over tcp, which takes their data through the host.
bats_require_minimum_version 1.5.0

# train DIR RANKS OPTIONS...: a small run of step 05; QUIET=1: without survivors.
train() {
    run -0 env RECONFIGURE=$((1 - ${QUIET:-0})) MAX_RESTARTS=20 timeout 400 05_fault_tolerance/run.sh "$2" --device cuda \
        --num-samples 128 --batch-size 8 --epochs 2 --save-every 0 --checkpoint-dir "$BATS_TEST_TMPDIR/$1" "${@:3}"
}

# survives RANKS OPTIONS...: the final file is an undisturbed run's, whichever rank is killed, and when.
survives() {
    export CUDA_STAND_IN_DEVICES=$1
    QUIET=1 train quiet "$@"
    for kill in kill:0:3 kill:1:1 kill:1:4,kill:0:6 kill:0:5,kill:0:6@1; do
        train killed "$@" --inject $kill
        echo "$kill: $output"
        grep -q 'of . ranks were sent the state from another' <<<"$output"
        cmp "$BATS_TEST_TMPDIR"/{quiet,killed}/*_*.safetensors
        rm -r "$BATS_TEST_TMPDIR/killed"
    done
}

@test "two GPUs over tcp: the final file is an undisturbed run's, whichever rank is killed, and when" {
    survives 2 --backend tcp
}

@test "two GPUs over nccl" {
    survives 2
}

@test "four GPUs over nccl, with Adam's two states" {
    survives 4 --model linear --optimizer adam
}

@test "a rank over nccl that hangs is killed after --timeout, and replaced; so are all at once" {
    export CUDA_STAND_IN_DEVICES=2
    QUIET=1 train quiet 2 --model linear
    for faults in stop:1:3 kill:0:4,kill:1:4; do
        train killed 2 --model linear --timeout 20 --save-every-steps 2 --inject $faults
        echo "$output"
        cmp "$BATS_TEST_TMPDIR"/{quiet,killed}/linear_random.safetensors
        rm -r "$BATS_TEST_TMPDIR/killed"
    done
}

@test "what does not survive is refused" {
    export CUDA_STAND_IN_DEVICES=2
    for options in "--amp fp16" "--cuda-graph on" "--check-collectives on"; do
        run -2 env RECONFIGURE=1 05_fault_tolerance/run.sh 2 --device cuda $options
        [[ $output == *"ranks that survive a failure need --backend tcp or nccl, "* ]]
    done
}
