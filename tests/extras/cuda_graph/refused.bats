#!/usr/bin/env bats
# --cuda-graph without a GPU. What it does with one is tried on a stand-in (tests/cuda/steps.bats).

@test "a CPU has no graphs: exit status 2 and a line that says so" {
    for device in cpu plain; do
        run 01_single_gpu/train --device $device --cuda-graph on
        echo "$output"
        [ "$status" -eq 2 ]
        [ "$output" = "train: --cuda-graph on: a CPU has no graphs; leave it out, or use --device cuda" ]
    done
}
