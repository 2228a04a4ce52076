#!/usr/bin/env bats
# Nothing is allocated inside the training loop: counted by tests/allocations/counter.c, in the very
# programs of the steps.

load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    counted=${BUILD:-build}/counted
    [ -x "$counted/01_single_gpu/train" ] || skip "this malloc cannot be counted"
    scratch=$(mktemp -d)
    few+=(--epochs 1 --num-samples 254 --global-batch-size 8) # on one rank or two 32 steps, the last with fewer rows
    # OpenMP makes a team for each region of one thread; what saves that is an extra (extras/fast_cpu/cpu_region.c).
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || export ALLOCATIONS_BUT=libgomp
}

teardown() {
    rm -rf "$scratch"
}

# Trains, and shows the allocations and their callers: addresses in the program become functions.
count() {
    run timeout 300 "$@" --checkpoint-dir "$scratch"
    [ "$status" -eq 0 ] || { echo "$output" && return 1; }
    report=$(echo "$output" | grep -A1000 '^allocations of' | while read -r line; do
        case $line in
        "$counted"*"(+0x"*) addr2line -ipfse "${line%%(*}" "$(echo "$line" | sed 's/.*(+\(0x[0-9a-f]*\)).*/\1/')" ;;
        *) echo "$line" ;;
        esac
    done)
    echo "$report"
}

# N processes have counted, and none has seen an allocation.
none_in() {
    ranks=$1
    shift
    count "$@"
    [ "$(echo "$report" | grep -c '^allocations of process [0-9]*: 0 from step 21 to ')" -eq "$ranks" ]
}

@test "01: the cnn, on one thread and on two" {
    none_in 1 "$counted/01_single_gpu/train" "${few[@]}" --threads 1
    none_in 1 "$counted/01_single_gpu/train" "${few[@]}" --threads 2
}

@test "01: the linear model, with every optimizer" {
    for optimizer in sgd adam adamw adadelta; do
        none_in 1 "$counted/01_single_gpu/train" --model linear --epochs 1 --optimizer $optimizer
    done
}

@test "02: all four stages" {
    for stage in train_a_spawn train_b_all_reduce train_c_sampler train; do
        none_in 2 "$counted/02_multi_gpu_spawn/$stage" --nproc 2 --model linear --epochs 1
    done
    none_in 2 "$counted/02_multi_gpu_spawn/train" --nproc 2 "${few[@]}"
}

@test "beyond: ZeRO, whose buffers serve one unit after the other" {
    for stage in 1 2 3; do
        none_in 2 "$counted/beyond/zero/train_zero$stage" --nproc 2 "${few[@]}"
    done
}

@test "beyond: Gloo's messages, and copies into PyTorch's buckets" {
    none_in 2 03_torchrun_env/ddprun --nproc-per-node 2 "$counted/beyond/gloo/train_gloo" "${few[@]}"
}

@test "03 and 04: two ranks, the cnn and the linear model" {
    for step in 03_torchrun_env 04_slurm_multinode; do
        none_in 2 03_torchrun_env/ddprun --nproc-per-node 2 "$counted/$step/train" "${few[@]}"
        none_in 2 03_torchrun_env/ddprun --nproc-per-node 2 "$counted/$step/train" --epochs 1 --model linear
    done
}

@test "05: two ranks, with all that can be switched on" {
    none_in 2 05_fault_tolerance/ddprun --nproc-per-node 2 "$counted/05_fault_tolerance/train" "${few[@]}" \
        --momentum 0.9 --reduce-order fixed --check-sync 3
    watched=(--trace "$scratch/t" --profile "$scratch/p") # an extra's
    05_fault_tolerance/train --help | grep -q -e ' --trace ' || watched=()
    none_in 2 05_fault_tolerance/ddprun --nproc-per-node 2 "$counted/05_fault_tolerance/train" --epochs 1 \
        --model linear --resume none --metrics-dir "$scratch/m" "${watched[@]}"
}

@test "between two epochs the evaluation lists its rows, and nothing else is allocated" {
    count "$counted/01_single_gpu/train" --epochs 2 --batch-size 64 --save-every 0
    [[ $report == *": 2 from step 21 to 46"* ]]
    [ "$(echo "$report" | grep -c '^ *evaluate at \| evaluate at ')" -eq 2 ]
}
