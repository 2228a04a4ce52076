#!/usr/bin/env bats
# bats file_tags=slow
# make gpu-first-hour on the stand-in, killed at random moments: the file has what was measured until then.
# SLOW=all make check-cuda ONLY=first_hour runs it.

setup() {
    export CUDA_STAND_IN_DEVICES=2 MPI=0 CUDA=1 CUDA_HOME=$PWD/toolkit CUDA_ARCH=all-major GPU_ARCH=all-major
    unset MAKEFLAGS
    make -s 01 02 03 05 build/bench/gpu_step build/bench/gpu_kernels build/bench/gpu_ladder \
        build/bench/all_reduce_ladder build/tests/against/gpu/machine build/tests/against/gpu/nccl_ranks
    file=$BATS_TEST_TMPDIR/hour
}

# hour: begins it in a session of its own, with few checks and small numbers.
hour() {
    setsid make -s gpu-first-hour FIRST_HOUR="$file" CHECKS='messages golden_losses_as' IMAGES='1 1' FLOATS='1000 1' PYTHON=false \
        ARGS='--batch 1 --turns 1 --steps 2 --repeats 1 --precision bf16,fp32 --python false' >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    make=$!
}

# What the parts noted themselves, each in its own file and before it printed it, is in the hour's file: all but the last.
nothing_is_lost() {
    local checks rows
    checks=$(grep -cE '^=== (ok|skip|FAILED): ' build/check-gpu.log) || :
    [ "$(grep -cE '^(not )?ok [0-9]' "$file")" -ge $((checks - 1)) ]
    rows=$(python3 -c 'import json
steps = json.load(open("build/bench/gpu.json"))["steps"]
print(sum({"our graph", "our calls"} <= step["by_way"].keys() for step in steps))') || rows=0
    [ "$(grep -cE '^[12] \| ' "$file")" -ge $((rows - 1)) ]
    echo "$checks checks, $rows rows"
}

@test "gpu-first-hour, killed ten times: nothing measured is lost" {
    hour
    begin=$SECONDS
    wait "$make"
    took=$((SECONDS - begin + 1))
    cat "$file"
    [ "$(grep -cE '^ok [0-9]' "$file")" -eq 2 ]
    [ "$(grep -cE ' [0-9.]+e-[0-9]+$' "$file")" -ge 4 ] # rungs
    [ "$(sed -n '/ floats, mean of /,/^== /p' "$file" | grep -cE ' 0\.0e\+00$')" -eq 6 ] # of the second ladder
    [ "$(grep -cE '^1 \| ' "$file")" -eq 2 ]
    nothing_is_lost
    for i in 1 2 3 4 5 6 7 8 9 10; do
        rm -f "$file" build/check-gpu.log build/bench/gpu.json
        : >build/check-gpu.log
        hour
        sleep "$((took * i / 11)).$((RANDOM % 10))"
        pkill -KILL --session "$make" || : # whatever is left of it
        wait "$make" || :
        nothing_is_lost
    done
}
