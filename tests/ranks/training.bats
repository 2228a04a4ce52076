#!/usr/bin/env bats
# More ranks than cores, through the launcher: the losses of one rank with the same global batch.

# losses RANKS OPTION...: the mean over the ranks of each step's loss, one a line.
losses() {
    metrics=$BATS_TEST_TMPDIR/metrics$1
    03_torchrun_env/run.sh "$@" --threads 1 --save-every 0 --epochs 1 --log-interval 1000 \
        --metrics-dir "$metrics" --checkpoint-dir "$BATS_TEST_TMPDIR" >&2
    [ "$(find "$metrics" -name 'rank*.jsonl' | wc -l)" -eq "$1" ]
    jq -s -r 'group_by(.step)[] | map(.loss) | add / length' "$metrics"/rank*.jsonl
}

# same_losses RANKS STEPS OPTION...
same_losses() {
    ranks=$1 steps=$2
    shift 2
    losses "$ranks" "$@" --max-steps "$steps" >"$BATS_TEST_TMPDIR/many"
    losses 1 "$@" --max-steps "$steps" >"$BATS_TEST_TMPDIR/one"
    paste "$BATS_TEST_TMPDIR/many" "$BATS_TEST_TMPDIR/one" | tee "$BATS_TEST_TMPDIR/both"
    awk -v steps="$steps" '
        NF != 2 || ($1 - $2) ^ 2 > 1e-8 { bad = 1 }
        END { exit bad || NR != steps }' "$BATS_TEST_TMPDIR/both"
}

@test "64 ranks train the linear model as one does" {
    same_losses 64 16 --model linear --global-batch-size 128 --lr 0.01
}

@test "256 ranks train two epochs of the linear model" {
    start=$SECONDS
    03_torchrun_env/run.sh 256 --model linear --epochs 2 --save-every 0 --threads 1 \
        --checkpoint-dir "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/out"
    echo "# $((SECONDS - start)) s at a load of $(cut -d' ' -f1 /proc/loadavg)" >&3
    [ "$(grep -c '^\[CPU[0-9]*\] Epoch 1 | Batchsize: 32 | Steps: 1$' "$BATS_TEST_TMPDIR/out")" -eq 256 ]
}

@test "16 ranks train the cnn as one does" {
    same_losses 16 8 --dropout off --num-samples 256 --global-batch-size 32 --optimizer sgd --momentum 0.9
}

@test "128 ranks, which take 576 descriptors, and where 100 are allowed a line that says so" {
    sh -c 'ulimit -S -n 100 && 03_torchrun_env/run.sh 128 --model linear --epochs 1 --save-every 0 \
        --max-steps 2 --batch-size 1 --threads 1 --checkpoint-dir "$0"' "$BATS_TEST_TMPDIR"
    run sh -c 'ulimit -n 100 && 03_torchrun_env/run.sh 128 --model linear'
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -le 2 ] # the first may say that they are many for the cores
    [[ $output == *"128 ranks take 576 descriptors here, and a process may open 100: raise that (ulimit -n 576)" ]]
}
