#!/usr/bin/env bats
# make check-gpu itself on the stand-in: its checks of NCCL's ranks that take seconds there.

setup() {
    export CUDA_STAND_IN_DEVICES=3 MAKEFLAGS='' MPI=0 CUDA=1 CUDA_HOME=$PWD/toolkit CUDA_ARCH=all-major
}

@test "check-gpu: each collective on 1, 2 and all GPUs, and NCCL's ranks under compute-sanitizer" {
    run tests/against/gpu/check.py messages under_compute_sanitizer
    echo "$output"
    cat build/check-gpu.log
    [ "$status" -eq 0 ]
    [[ $output == *"ok 1 nccl collectives and messages: 1, 2, 3 ranks"* ]]
    [[ $output == *"ok 2 nccl under compute sanitizer: memcheck, racecheck, initcheck, 2 ranks"* ]]
    [ "$(grep -c 'compute-sanitizer --tool .* 03_torchrun_env/train' build/check-gpu.log)" -eq 3 ]
}

@test "check-gpu: when its minutes are over it names what it leaves out" {
    MINUTES=0 run tests/against/gpu/check.py messages golden
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '# SKIP left out: 0 minutes are over; MINUTES=30' <<<"$output")" -ge 4 ]
}

@test "check-gpu: a driver older than the toolkit is named, with the toolkit that suits it" {
    CUDA_STAND_IN_DRIVER=12020 run tests/against/gpu/check.py
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$output" = "make check-gpu: the driver is for CUDA 12.2, older than this toolkit's 13.0: install toolkit 12.x and \
say where with CUDA_HOME=DIR, or install a newer driver" ]
}
