#!/usr/bin/env bats
# make bench-gpu on the stand-in: one and two GPUs, all tables, and bench/RESULTS.md. Its PyTorch is tried by hand:
# bench/gpu.py --torch-device cpu --batch 1 --precision fp32 --turns 1 --steps 2 --repeats 1

setup() {
    export CUDA_STAND_IN_DEVICES=2 MAKEFLAGS='' MPI=0 CUDA=1 CUDA_HOME=$PWD/toolkit CUDA_ARCH=all-major
    make -s 03 build/bench/gpu_step build/bench/gpu_kernels build/tests/against/gpu/machine
    QUICK=(--batch 1 --turns 1 --steps 2 --repeats 1)
}

@test "bench-gpu: steps, memory and kernels, written into the place of the last figures and nowhere else" {
    cp bench/RESULTS.md "$BATS_TEST_TMPDIR/before"
    run bench/gpu.py --full "${QUICK[@]}" --precision bf16 --python false --write
    echo "$output"
    [ "$status" -eq 0 ]
    sed '/^<!-- bench gpu -->/,/^<!-- end of bench gpu -->/d' bench/RESULTS.md >"$BATS_TEST_TMPDIR/rest"
    sed '/^<!-- bench gpu -->/,/^<!-- end of bench gpu -->/d' "$BATS_TEST_TMPDIR/before" | cmp - "$BATS_TEST_TMPDIR/rest"
    block=$(sed -n '/^<!-- bench gpu -->/,/^<!-- end of bench gpu -->/p' bench/RESULTS.md)
    [[ $block == *"**No GPU: a stand-in"*"no PyTorch"* ]]
    registered=([1]=- [2]='[0-9]+')
    for gpus in 1 2; do # times, then memory; the third column is by cuDNN, the fourth with --nccl-register
        [ "$(grep -cE "^\| $gpus +\| 1 +\| bf16 +\| [0-9.]+ \([0-9.]+-[0-9.]+\) +\| [0-9.]+ \(" <<<"$block")" -eq 1 ]
        [ "$(grep -cE "^\| $gpus +\| 1 +\| bf16 +\| [0-9]+ +\| [0-9]+ +\| [0-9]+ +\| ${registered[gpus]} +\| -" <<<"$block")" -eq 1 ]
    done
    for kernel in 'conv2, back' '  im2col' 'fc1 . relu' 'dropout of 9,216' 'sgd with momentum'; do
        grep -qE "^\| $kernel +\| [0-9.]+ +\| .* (memory|sums) +\| [0-9]+ %" <<<"${block//+/.}"
    done
}

@test "bench-gpu: a PyTorch that hangs costs its own figures alone, and the time is kept" {
    printf '#!/bin/sh\necho "PyTorch that hangs"\nexec sleep 3000\n' >"$BATS_TEST_TMPDIR/python"
    chmod +x "$BATS_TEST_TMPDIR/python"
    run bench/gpu.py --quick "${QUICK[@]}" --precision fp32 --python "$BATS_TEST_TMPDIR/python" --minutes 1
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"Not measured: compile at batch 1, fp32, GPUs: 1: no answer in time"* ]]
    [[ $output == *"Not measured: eager at batch 1, fp32, GPUs: 1: the time was over."* ]]
    grep -qE '^\| 1 +\| 1 +\| fp32 +\| [0-9.]+ \([0-9.]+-[0-9.]+\) +\| [0-9.]+ \(' build/bench/gpu.md
    ! pgrep -f 'sleep 3000' || false
}

@test "bench-gpu: killed at any moment it has written what it measured" {
    out=$BATS_TEST_TMPDIR/out
    for _ in 1 2 3; do
        rm -f build/bench/gpu.json "$out"
        PYTHONUNBUFFERED=1 bench/gpu.py "${QUICK[@]}" --precision bf16,fp32 --gpus 1,2 --python false >"$out" &
        timeout 300 sh -c "until grep -q '^1 | ' '$out'; do sleep 0.1; done" # the first row
        sleep "$((RANDOM % 3)).$((RANDOM % 10))"
        kill -KILL $!
        wait $! || true
        python3 - "$(grep -cE '^[12] \| ' "$out")" <<'END'
import json, sys
steps = json.load(open("build/bench/gpu.json"))["steps"]
whole = [step for step in steps if {"our graph", "our calls"} <= step["by_way"].keys()]
sys.exit(len(whole) < int(sys.argv[1]))
END
    done
}
