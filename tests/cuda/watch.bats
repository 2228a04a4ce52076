#!/usr/bin/env bats
# --trace, --profile and NVTX with --device cuda on the stand-in: the GPU's own times, by its own clock.

setup() {
    scratch=$BATS_TEST_TMPDIR
    trace=$scratch/trace.json profile=$scratch/profile.txt
    export CUDA_STAND_IN_DEVICES=2
}

# train OPTIONS...: two ranks of 03, five steps each.
train() {
    run timeout 600 03_torchrun_env/run.sh 2 --device cuda --num-samples 100 --batch-size 10 --epochs 1 \
        --save-every 0 --bucket-cap-mb 1 --checkpoint-dir "$scratch" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# events FILTER [MORE]: what jq makes of the events of the trace.
events() {
    jq -c "[.traceEvents[] | select($1)] ${2:-}" "$trace"
}

lanes() {
    jq -r '.traceEvents[] | select(.name == "thread_name") | "\(.pid) \(.tid) \(.args.name)"' "$trace" | sort
}

@test "the GPU has lanes of its own, for what it computes and for NCCL" {
    train --trace "$trace"
    [ "$(lanes)" = "1 1 training
1 2 NCCL
1 3 GPU compute
2 1 training
2 2 NCCL
2 3 GPU compute" ]
    for layer in conv1 conv2 fc1 fc2 loss; do
        for kind in forward backward; do
            [ "$(events ".pid == 2 and .tid == 3 and .cat == \"$kind\" and .name == \"$layer\"" '| length')" -ge 5 ]
        done
    done
    # Every gradient of the CNN in every step: 1,199,882, four bytes each, in two buckets.
    reduced='.pid == 1 and .tid == 2 and .name == "all_reduce" and .args.type == "float32"'
    [ "$(events "$reduced" '| map(.args.bytes) | add')" -eq $((5 * 4 * 1199882)) ]
    [ "$(events "$reduced" '| length')" -eq 10 ]
    [ "$(events '.ph == "X" and (.dur < -1 or .ts < -1e6)' '| length')" -eq 0 ]
    # No GPU has the sum of a bucket before both have sent their part.
    jq -e '[.traceEvents[] | select(.tid == 2 and .name == "all_reduce")] | group_by(.pid)
        | [.[0], .[1]] | transpose
        | all((map(.ts) | max) < (map(.ts + .dur) | min) + 1000)' "$trace"
    # What the GPU does begins after the host has queued it, and in the same order.
    jq -e '[.traceEvents[] | select(.pid == 1 and .ph == "X" and .tid != 2)] | group_by(.tid)
        | (.[0] | length) == (.[1] | length)
        and (transpose | all(.[0].name == .[1].name and .[1].ts > .[0].ts - 1000))' "$trace"
}

@test "lanes of a GPU are drawn: what it computed, and messages" {
    train --trace "$trace"
    run tools/lanes.sh "$trace" 2
    echo "$output"
    [ "$status" -eq 0 ]
    for text in 'rank 0' 'rank 1' messages milliseconds conv2 backward; do
        grep -q ">$text<" "${trace%.json}.svg"
    done
}

# column NAME: the mean seconds of a row of the profile.
column() {
    awk -v name="$1" 'index($0, name) == 1 { sub(name, ""); print $1 }' "$profile"
}

@test "a profile has the GPU's times, which sum to the wall time" {
    for backend in nccl tcp; do
        train --backend $backend --profile "$profile"
        cat "$profile"
        awk '/^sum/ { total = $6; exit }
             /^[a-z]/ && !/^phase/ { sum += $(NF - 5); if ($(NF - 5) < 0) bad = 1 }
             END { exit bad || !(sum > 0.97 * total && sum < 1.03 * total) }' "$profile"
        awk -v forward="$(column forward)" -v backward="$(column backward)" -v idle="$(column 'rest: the GPU idle')" \
            -v hidden="$(column 'communication hidden')" -v exposed="$(column 'communication exposed')" \
            -v all="$(column 'communication in all')" 'BEGIN {
                exit !(forward > 0.01 && backward > 0.01 && idle != "" && all > 0 &&
                       hidden + exposed > all - 0.003 && hidden + exposed < all + 0.003) }'
    done
    run grep -c 'step (graph)' "$profile"
    [ "$output" = 0 ]
}

@test "a step that is a graph is one piece" {
    train --cuda-graph on --max-steps 5 --trace "$trace" --profile "$profile"
    # Three steps as they are called, one recorded and launched, one launched.
    for lane in 1 3; do
        [ "$(events ".pid == 1 and .tid == $lane and .name == \"step (graph)\"" '| length')" -eq 2 ]
    done
    graph=$(events '.pid == 1 and .tid == 3 and .cat == "graph"' '| map([.ts, .ts + .dur])')
    [ "$(events '.pid == 1 and .tid == 3 and .cat == "backward" and .name == "conv1"' '| length')" -eq 3 ]
    # The GPU is at work in it, and not in the pieces of the recording.
    [ "$(jq -n "$graph | all(.[1] - .[0] > 1000)")" = true ]
    cat "$profile"
    awk -v graph="$(column 'step (graph)')" 'BEGIN { exit !(graph > 0.002) }'
    awk '/^sum/ { total = $6; exit }
         /^[a-z]/ && !/^phase/ { sum += $(NF - 5) }
         END { exit !(sum > 0.97 * total && sum < 1.03 * total) }' "$profile"
}

@test "a tool that listens to NVTX hears every span, with no option; without one there is none" {
    export CUDA_STAND_IN_NVTX=$scratch/nvtx
    train --max-steps 2
    set -- "$scratch"/nvtx.*
    [ $# -eq 2 ]
    for name in 'data gather' 'forward conv1' 'forward loss' 'backward fc1' \
        'wait wait' 'optimizer zero_grad' 'optimizer optim_step'; do
        [ "$(grep -cx "$name" "$1")" -ge 2 ]
    done
    [ "$(head -n 1 "$1")" = 'domain ddp.c' ]
    [ "$(grep -cx 'evaluation evaluation' "$1")" -eq 1 ]
    grep -qx ' forward conv1' "$1" # inside of the evaluation
}
