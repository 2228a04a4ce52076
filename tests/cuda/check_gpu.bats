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
    for kind in memcheck racecheck initcheck; do # before it, each tool has reported a fault that is there
        [ "$(grep -c "compute-sanitizer --tool $kind .*/control $kind$" build/check-gpu.log)" -eq 1 ]
    done
}

@test "check-gpu: a sanitizer that sees nothing is named, and what it does not say of our kernels counts for nothing" {
    printf '#!/bin/sh\necho "========= ERROR SUMMARY: 0 errors"\n' >"$BATS_TEST_TMPDIR/compute-sanitizer"
    chmod +x "$BATS_TEST_TMPDIR/compute-sanitizer"
    PATH=$BATS_TEST_TMPDIR:$PATH run tests/against/gpu/check.py under_compute_sanitizer
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"not ok 1 nccl under compute sanitizer: memcheck does not report a kernel with a fault"* ]]
}

@test "check-gpu: each control has the fault that its name says" {
    make -s build/tests/against/gpu/control
    run build/tests/against/gpu/control memcheck
    [[ $status -ne 0 && $output == *'cuda stand-in: '*control_memcheck* ]]
    run build/tests/against/gpu/control synccheck
    [[ $status -ne 0 && $output == *'cuda stand-in: '*control_synccheck* ]]
    build/tests/against/gpu/control racecheck
    run build/tests/against/gpu/control
    [ "$status" -eq 2 ]
}

@test "check-gpu: on a GPU in exclusive-process mode ranks do not share it, which is said" {
    printf '#!/bin/sh\necho Exclusive_Process\n' >"$BATS_TEST_TMPDIR/nvidia-smi"
    chmod +x "$BATS_TEST_TMPDIR/nvidia-smi"
    CUDA_STAND_IN_DEVICES=1 PATH=$BATS_TEST_TMPDIR:$PATH run tests/against/gpu/check.py share_a_gpu messages
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^a GPU is in exclusive-process mode: ' <<<"$output")" -eq 1 ]
    [ "$(grep -c '^ok .* # SKIP a GPU is in exclusive-process mode, .*nvidia-smi -c 0' <<<"$output")" -eq 2 ]
}

@test "check-gpu: what is missing is listed before anything is built" {
    mkdir -p "$BATS_TEST_TMPDIR/toolkit"
    cp -a toolkit/. "$BATS_TEST_TMPDIR/toolkit"
    rm "$BATS_TEST_TMPDIR"/toolkit/lib64/libcudart_static.a
    CUDA_HOME=$BATS_TEST_TMPDIR/toolkit run tests/against/gpu/check.py
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$output" = "make check-gpu: no libcudart_static.a in $BATS_TEST_TMPDIR/toolkit: install CUDA's toolkit, or say where it is with CUDA_HOME=DIR" ]
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
    [ "${lines[-1]}" = "make check-gpu: the driver is for CUDA 12.2, older than this toolkit's 13.0: install toolkit 12.x and \
say where with CUDA_HOME=DIR, or install a newer driver" ]
}
