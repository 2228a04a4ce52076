#!/usr/bin/env bats
# The steps as a user runs them: what they print and write, and what must not change the result.

load ../helpers/free_port
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

# Runs a command that must succeed.
ok() {
    run timeout 300 "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# The "Train Epoch" losses of all steps of a run, one a line.
losses() {
    timeout 300 "$@" --dropout off --log-interval 1 --save-every 0 --checkpoint-dir "$scratch" |
        sed -n 's/^Train Epoch.*Loss: //p'
}

# None of these processes is left. (A zombie is, until its new parent reaps it.)
assert_gone() {
    for _ in $(seq 600); do
        alive=$(ps -o stat= -p "$(echo "$@" | tr ' ' ,)" | grep -vc '^Z' || true)
        [ "$alive" -ne 0 ] || return 0
        sleep 0.1
    done
    return 1
}

# Two columns of losses agree within a tolerance, and are not empty.
agree() {
    paste "$1" "$2" | awk -v tolerance="$3" '
        NF != 2 || ($1 - $2) ^ 2 > tolerance ^ 2 { print "line " NR ": " $0; bad = 1 }
        END { exit bad || NR == 0 }'
}

@test "03 on 2 ranks learns the digits: 95 % at least, as README says, whose figures tests/docs/readme.bats compares" {
    accuracy=$(grep -A6 '^\./03_torchrun_env/run\.sh 2 ' README.md | sed -n 's/^Test Epoch: 9 .*Accuracy: \([0-9.]*\)%.*/\1/p')
    awk -v a="$accuracy" 'BEGIN { exit !(a >= 95) }'
}

@test "the linear job prints its lines and saves from rank 0 only" {
    ok 03_torchrun_env/run.sh 2 --model linear 3 1 --checkpoint-dir "$scratch/c"
    for rank in 0 1; do
        [ "$(echo "$output" | grep -c "^\[CPU$rank\] Epoch [0-2] | Batchsize: 32 | Steps: 32$")" -eq 3 ]
    done
    [ "$(echo "$output" | grep -c '^Train Epoch: 1 \[0/2048\] Loss: 0\.[0-9]\{6\}$')" -eq 1 ]
    [ "$(echo "$output" | grep -c '^Train Epoch: 1 \[640/2048\] Loss: ')" -eq 1 ]
    for epoch in 0 1 2; do
        file=$scratch/c/epoch_$((epoch + 1)).safetensors
        [ "$(echo "$output" | grep -c "^Epoch $epoch | Training checkpoint saved at $file$")" -eq 1 ]
    done
    ! echo "$output" | grep -q '^Test Epoch' || false
    [ "$(ls "$scratch/c" | tr '\n' ' ')" = "epoch_1.safetensors epoch_2.safetensors epoch_3.safetensors linear_random.safetensors " ]
}

@test "epochs 0, S, 2S are saved, and the end; 0 epochs write the initial state" {
    ok 01_single_gpu/run.sh 4 2 "${few[@]}" --num-samples 64 --checkpoint-dir "$scratch"
    [ "$(ls "$scratch" | tr '\n' ' ')" = "cnn_mnist.safetensors epoch_1.safetensors epoch_3.safetensors " ]
    ok 01_single_gpu/run.sh 0 --checkpoint-dir "$scratch/initial"
    [ "$(ls "$scratch/initial")" = "epoch_0.safetensors" ]
}

@test "the same command twice gives the same bytes" {
    for i in 1 2; do
        ok 03_torchrun_env/run.sh 2 "${few[@]}" --epochs 2 --checkpoint-dir "$scratch/$i"
    done
    cmp "$scratch/1/cnn_mnist.safetensors" "$scratch/2/cnn_mnist.safetensors"
}

@test "the number of threads changes no bit" {
    for threads in 1 2 3; do
        ok 01_single_gpu/run.sh "${few[@]}" --epochs 1 --num-samples 200 --threads $threads --checkpoint-dir "$scratch/$threads"
    done
    cmp "$scratch/1/cnn_mnist.safetensors" "$scratch/2/cnn_mnist.safetensors"
    cmp "$scratch/1/cnn_mnist.safetensors" "$scratch/3/cnn_mnist.safetensors"
}

@test "with the global batch fixed, 1, 2 and 4 ranks have the same losses" {
    fixed="${few[*]} --num-samples 64 --global-batch-size 8 --max-steps 11" # the second epoch, too
    losses 01_single_gpu/run.sh $fixed >"$scratch/01"
    [ "$(wc -l <"$scratch/01")" -eq 11 ]
    for ranks in 2 4; do
        losses 02_multi_gpu_spawn/run.sh $ranks $fixed >"$scratch/02"
        agree "$scratch/01" "$scratch/02" 1e-4
        losses 03_torchrun_env/run.sh $ranks $fixed >"$scratch/03"
        agree "$scratch/01" "$scratch/03" 1e-4
    done
}

@test "dropout draws the same masks on 1 and 2 ranks" {
    fixed="${few[*]} --num-samples 64 --global-batch-size 8 --max-steps 10 --log-interval 1"
    01_single_gpu/run.sh $fixed --checkpoint-dir "$scratch" | sed -n 's/^Train.*Loss: //p' >"$scratch/01"
    03_torchrun_env/run.sh 2 $fixed --checkpoint-dir "$scratch" | sed -n 's/^Train.*Loss: //p' >"$scratch/03"
    agree "$scratch/01" "$scratch/03" 1e-4
}

@test "the size of the buckets changes nothing beyond rounding" {
    losses 03_torchrun_env/run.sh 3 "${few[@]}" --max-steps 8 --batch-size 8 --bucket-cap-mb 25 >"$scratch/large"
    losses 03_torchrun_env/run.sh 3 "${few[@]}" --max-steps 8 --batch-size 8 --bucket-cap-mb 0.001 >"$scratch/small"
    agree "$scratch/large" "$scratch/small" 1e-5
}

@test "without the all-reduce (stage a) ranks part; stages b and c print as they should" {
    STAGE=a ok 02_multi_gpu_spawn/run.sh 2 "${few[@]}" --max-steps 3 --metrics-dir "$scratch/a" --checkpoint-dir "$scratch"
    ! cmp -s <(jq .loss "$scratch/a/rank0.jsonl") <(jq .loss "$scratch/a/rank1.jsonl") || false
    [ "$(echo "$output" | grep -c '^Test Epoch')" -eq 2 ]
    STAGE=b ok 02_multi_gpu_spawn/run.sh 2 "${few[@]}" --max-steps 3 --checkpoint-dir "$scratch"
    [ "$(echo "$output" | grep -c '^Test Epoch')" -eq 2 ]
    [ "$(echo "$output" | grep '^Test Epoch' | sort -u | wc -l)" -eq 1 ] # identical replicas
    STAGE=c ok 02_multi_gpu_spawn/run.sh 2 "${few[@]}" --max-steps 3 --checkpoint-dir "$scratch"
    [ "$(echo "$output" | grep -c '^Test Epoch')" -eq 1 ]
}

@test "a run that is resumed ends with the bytes of one that never stopped" {
    few+=(--epochs 2 --batch-size 16 --num-samples 200) # 7 steps an epoch
    ok 02_multi_gpu_spawn/run.sh 2 "${few[@]}" --checkpoint-dir "$scratch/straight"
    ok 02_multi_gpu_spawn/run.sh 2 "${few[@]}" --max-steps 9 --checkpoint-dir "$scratch/half"
    ok 03_torchrun_env/run.sh 2 "${few[@]}" --resume "$scratch/half/cnn_mnist.safetensors" --checkpoint-dir "$scratch/rest"
    cmp "$scratch/straight/cnn_mnist.safetensors" "$scratch/rest/cnn_mnist.safetensors"
}

@test "nothing left to do after a resume is said in a line, status 0" {
    ok 01_single_gpu/run.sh 1 --num-samples 64 --checkpoint-dir "$scratch"
    ok 01_single_gpu/run.sh 1 --num-samples 64 --resume "$scratch/cnn_digits.safetensors" --checkpoint-dir "$scratch"
    echo "$output" | grep -q 'nothing left to do'

    # The result of a longer run stays where it is.
    ok 01_single_gpu/run.sh 4 1 --model linear --checkpoint-dir "$scratch/long"
    cp "$scratch/long/linear_random.safetensors" "$scratch/kept"
    ok 01_single_gpu/run.sh 2 --model linear --checkpoint-dir "$scratch/long" --resume "$scratch/long/epoch_2.safetensors"
    echo "$output" | grep -q 'nothing left to do'
    cmp "$scratch/long/linear_random.safetensors" "$scratch/kept"
    rm "$scratch/long/linear_random.safetensors" # a run that was cut off before it was written
    ok 01_single_gpu/run.sh 2 --model linear --checkpoint-dir "$scratch/long" --resume "$scratch/long/epoch_2.safetensors"
    [ -e "$scratch/long/linear_random.safetensors" ]
}

@test "a rank that is killed ends step 02 with its status and leaves nobody" {
    02_multi_gpu_spawn/run.sh 2 --epochs 1000 --checkpoint-dir "$scratch" >/dev/null 2>&1 3>&- &
    parent=$!
    for _ in $(seq 1000); do
        children=$(pgrep -P $parent || true)
        [ "$(echo "$children" | wc -w)" -ne 2 ] || break
        sleep 0.1
    done
    kill -KILL $(echo "$children" | head -n 1) # of two that have ended, wait() tells of the older one first
    status=0
    wait $parent || status=$?
    [ "$status" -eq 137 ]
    assert_gone $children
}

@test "a failed rank ends step 02 with its status, though who started it ignores SIGCHLD" {
    for program in train_a_spawn train_b_all_reduce train_c_sampler train; do
        run timeout 300 env --ignore-signal=CHLD 02_multi_gpu_spawn/$program --nproc 2 \
            --dataset mnist --data-dir "$scratch/none" --checkpoint-dir "$scratch"
        [ "$status" -eq 2 ]
        [[ $output == *" is missing, plain and as .gz: "* ]]
    done
}

@test "SIGTERM and SIGKILL to the parent of step 02 leave nobody" {
    for signal in TERM KILL; do
        02_multi_gpu_spawn/run.sh 2 --epochs 1000 --checkpoint-dir "$scratch" >"$scratch/said.$signal" 2>&1 3>&- &
        parent=$!
        timeout 300 sh -c 'until grep -q "^.CPU0. Epoch" "$0" && grep -q "^.CPU1. Epoch" "$0"; do sleep 0.05; done' "$scratch/said.$signal"
        children=$(pgrep -P $parent)
        kill -$signal $parent
        wait $parent || true
        assert_gone $children
    done
}

@test "03 says what is missing when something has set a part of what a launcher sets" {
    run env -u RANK LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=1 03_torchrun_env/train
    [ "$status" -eq 1 ]
    echo "$output" | grep -q 'RANK is not set.*run.sh'
    [ "$(echo "$output" | wc -l)" -eq 1 ]
}

@test "03 runs from a plain shell loop, and --local-rank stands in for LOCAL_RANK" {
    export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
    MASTER_PORT=$(free_port)
    export MASTER_PORT
    RANK=1 03_torchrun_env/train 1 --local-rank=1 --model linear --checkpoint-dir "$scratch" >/dev/null 2>&1 3>&- &
    RANK=0 ok 03_torchrun_env/train 1 --local-rank 0 --model linear --checkpoint-dir "$scratch"
    wait $!
}

@test "mpirun starts 03 with the same losses as ddprun" {
    command -v mpirun >/dev/null || skip "no mpirun"
    losses 03_torchrun_env/run.sh 2 "${few[@]}" --max-steps 5 --batch-size 8 >"$scratch/ddprun"
    LAUNCHER=mpirun losses 03_torchrun_env/run.sh 2 "${few[@]}" --max-steps 5 --batch-size 8 >"$scratch/mpirun"
    agree "$scratch/ddprun" "$scratch/mpirun" 0
    grep -q MPI=1 "${BUILD:-build}/parts" || skip "built without MPI"
    LAUNCHER=mpirun losses 03_torchrun_env/run.sh 2 "${few[@]}" --max-steps 5 --batch-size 8 --backend mpi >"$scratch/mpi"
    agree "$scratch/ddprun" "$scratch/mpi" 1e-4
}

@test "any step loads any other step's file" {
    ok 03_torchrun_env/run.sh 2 "${few[@]}" --max-steps 5 --checkpoint-dir "$scratch"
    ok 01_single_gpu/run.sh "${few[@]}" --max-steps 8 --resume "$scratch/cnn_mnist.safetensors" --checkpoint-dir "$scratch/01"
    ok 02_multi_gpu_spawn/run.sh 3 "${few[@]}" --max-steps 3 --init-from "$scratch/01/cnn_mnist.safetensors" --checkpoint-dir "$scratch/02"
}
