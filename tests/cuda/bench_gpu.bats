#!/usr/bin/env bats
# make bench-gpu on the stand-in: one and two GPUs, all tables, and bench/RESULTS.md. Its PyTorch is tried by hand:
# bench/gpu.py --torch-device cpu --batch 1 --precision fp32 --turns 1 --steps 2 --repeats 1

@test "bench-gpu: steps, memory and kernels, written into the place of the last figures and nowhere else" {
    export CUDA_STAND_IN_DEVICES=2 MAKEFLAGS='' MPI=0 CUDA=1 CUDA_HOME=$PWD/toolkit CUDA_ARCH=all-major
    make -s 03 build/bench/gpu_step build/bench/gpu_kernels build/tests/against/gpu/machine
    cp bench/RESULTS.md "$BATS_TEST_TMPDIR/before"
    run bench/gpu.py --batch 1 --precision bf16 --turns 1 --steps 2 --repeats 1 --python false --write
    echo "$output"
    [ "$status" -eq 0 ]
    sed '/^<!-- bench gpu -->/,/^<!-- end of bench gpu -->/d' bench/RESULTS.md >"$BATS_TEST_TMPDIR/rest"
    sed '/^<!-- bench gpu -->/,/^<!-- end of bench gpu -->/d' "$BATS_TEST_TMPDIR/before" | cmp - "$BATS_TEST_TMPDIR/rest"
    block=$(sed -n '/^<!-- bench gpu -->/,/^<!-- end of bench gpu -->/p' bench/RESULTS.md)
    [[ $block == *"**No GPU: a stand-in"*"no PyTorch"* ]]
    for gpus in 1 2; do # times, then memory
        [ "$(grep -cE "^\| $gpus +\| 1 +\| bf16 +\| [0-9.]+ \([0-9.]+-[0-9.]+\) +\| [0-9.]+ \(" <<<"$block")" -eq 1 ]
        [ "$(grep -cE "^\| $gpus +\| 1 +\| bf16 +\| [0-9]+ +\| [0-9]+ +\| -" <<<"$block")" -eq 1 ]
    done
    for kernel in 'conv2, back' '  im2col' 'fc1 . relu' 'dropout of 9,216' 'sgd with momentum'; do
        grep -qE "^\| $kernel +\| [0-9.]+ +\| .* (memory|sums) +\| [0-9]+ %" <<<"${block//+/.}"
    done
}
