#!/usr/bin/env bats
# --reduce-order fixed in whole trainings: the same bits for 1, 2, 4 and 8 ranks, and PyTorch's
# losses. (By hand, gradient by gradient: test_reduce_order.c and test_fixed_all_reduce.c.)

load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$(mktemp -d)
}

teardown() {
    rm -rf "$scratch"
}

# same OPTIONS...: 1 and 8 ranks end with the same tensors, optimizer's state included.
same() {
    rm -rf "$scratch/1" "$scratch/8"
    for ranks in 1 8; do
        timeout 300 05_fault_tolerance/run.sh $ranks --device cpu --reduce-order fixed \
            --resume none --global-batch-size 24 --num-samples 117 --max-steps 8 --save-every 0 \
            --checkpoint-dir "$scratch/$ranks" "$@" || return 1
        head -c 16384 "$scratch/$ranks"/*.safetensors | grep -a -o '"tensors_checksum":"[0-9a-f]*"'
    done >"$scratch/log" 2>&1
    cat "$scratch/log"
    [ "$(grep -c '^"tensors_checksum"' "$scratch/log")" -eq 2 ]
    [ "$(grep '^"tensors_checksum"' "$scratch/log" | sort -u | wc -l)" -eq 1 ]
}

@test "make prove: ranks, threads, buckets and a group that shrinks change no bit" {
    run timeout 900 tools/prove.sh 6 --num-samples 53 --global-batch-size 16 # the last batch of an epoch is padded
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "all runs of a model with fixed are identical" ]
    [ "$(echo "$output" | grep -c ' fixed .* [0-9a-f]\{32\}$')" -eq 12 ]
}

@test "make prove: what is no number of steps and no option is met by the usage, before anything runs" {
    run tools/prove.sh x
    [ "$status" -eq 2 ]
    [[ $output == "Usage: "* ]]
}

@test "every optimizer ends with the same bits on 1 and 8 ranks" {
    same --model linear --momentum 0.9 --weight-decay 0.01
    same "${few[@]}" --optimizer adadelta --weight-decay 0.01
    same "${few[@]}" --optimizer adamw --bucket-cap-mb 0.01
}

@test "with --reduce-order fixed the losses are PyTorch's" {
    printf '#!/bin/sh\nexec "%s" "$@" --reduce-order fixed --resume none\n' \
        "$PWD/05_fault_tolerance/run.sh" >"$scratch/run.sh"
    chmod +x "$scratch/run.sh"
    # Of those where there is nothing to pad that PyTorch does not pad, too.
    for golden in linear_sgd_w1 linear_sgd_w4 digits_momentum_w1 digits_sgd_w4; do
        run tests/golden_losses.py $golden "$scratch/run.sh"
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "what cannot add up in that order is refused in one line" {
    cuda=$(sed -n "s/^CUDA=.*1.*/--device cuda/p" "${BUILD:-build}/parts") # a build without refuses it as such
    stages=$(sed -n "s/^EXTRAS=1/--all-reduce hierarchical/p" "${BUILD:-build}/parts") # no option without extras
    for option in ${cuda:+"$cuda"} ${stages:+"$stages"} "--batch-size 12"; do
        # shellcheck disable=SC2086 # an option and its value
        run timeout 200 05_fault_tolerance/run.sh 1 --reduce-order fixed --device cpu $option
        echo "$output"
        [ "$status" -eq 2 ]
        [ "$(echo "$output" | grep -c -e '--reduce-order')" -eq 1 ]
    done
}
