#!/usr/bin/env bats
# DDP_JOURNAL=FOLDER: each rank's calls, in their order.

load ../../helpers/few_rows

setup_file() {
    few_rows
}

# train FOLDER [OPTION...]: five steps of step 02 on two ranks; their journals go to the folder.
train() {
    folder=$BATS_TEST_TMPDIR/$1
    shift
    DDP_JOURNAL=$folder 02_multi_gpu_spawn/train --nproc 2 --threads 1 --max-steps 5 --log-interval 100 \
        "${few[@]}" --num-samples 150 --batch-size 20 --checkpoint-dir "$folder/saved" "$@" >"$folder.out"
}

# lines FOLDER RANK PATTERN: those lines of a journal.
lines() {
    grep -E "$3" "$BATS_TEST_TMPDIR/$1/rank$2.txt"
}

@test "two equal runs write the same lines, but for the process ids" {
    train a
    train b
    for rank in 0 1; do
        diff <(sed 's/pid=.*//' "$BATS_TEST_TMPDIR/a/rank$rank.txt") <(sed 's/pid=.*//' "$BATS_TEST_TMPDIR/b/rank$rank.txt")
    done
}

@test "a step is a line for each call: batch, gradients, collectives, optimizer" {
    train a
    sed -n '/^zero_grad/,/^step/p' "$BATS_TEST_TMPDIR/a/rank1.txt" | sed '/^step/q' >"$BATS_TEST_TMPDIR/step"
    cut -d ' ' -f 1 "$BATS_TEST_TMPDIR/step" | uniq | tr '\n' ' ' >"$BATS_TEST_TMPDIR/words"
    cat "$BATS_TEST_TMPDIR/step"
    [ "$(cat "$BATS_TEST_TMPDIR/words")" = "zero_grad batch dropout forward backward gradient start gradient start wait optim_step step " ]
    grep -q '^start 1 all_reduce count=1181066 type=float32 op=mean root=0 group=all data=grads+18816$' "$BATS_TEST_TMPDIR/step"
    grep -q '^optim_step lr=0.01$' "$BATS_TEST_TMPDIR/step"
    [ "$(lines a 1 '^(open|model)' | sed 's/pid=[0-9]*//; s/ grads.*//' | tr '\n' ' ')" = \
        "open rank=1  model rank=1 device=cpu local_rank=1 parameters=1199882 step=0 " ]
    lines a 1 '^batch 0 train of=150 rows=([0-9]+,){19}[0-9]+$'
    lines a 1 '^batch 0 evaluate of=24 rows=1,3,5,'
    lines a 0 '^batch 0 evaluate of=24 rows=0,2,4,'
    lines a 0 '^dropout fc1.weight p=0.5 seed=0 step=4 first_row=0 row_stride=2$'
    lines a 0 '^test step=5 '
    ! lines a 1 '^(test|save)' || false
    [ "$(tail -n 4 "$BATS_TEST_TMPDIR/a/rank1.txt" | cut -d ' ' -f 1 | tr '\n' ' ')" = "end leave start wait " ]
    # Nothing is random in an evaluation.
    awk '$1 == "batch" { mode = $3 } $1 == "dropout" && mode != "train" { bad = 1 } END { exit bad }' "$BATS_TEST_TMPDIR/a/rank0.txt"
}

@test "replicas have the same checksums, and every rank's norms are those of the metrics" {
    train a --metrics-dir "$BATS_TEST_TMPDIR/metrics"
    [ "$(lines a 0 '^(model|step)' | sed 's/.*crc/crc/' | sort -u | wc -l)" -eq 6 ]
    diff <(lines a 0 '^(model|step)' | sed 's/.*crc/crc/') <(lines a 1 '^(model|step)' | sed 's/.*crc/crc/')
    diff <(lines a 1 ^step | sed 's/.*loss=\([^ ]*\).*/\1/') <(sed 's/.*"loss":\([^,}]*\).*/\1/' "$BATS_TEST_TMPDIR/metrics/rank1.jsonl")
}

@test "a journal changes nothing, is continued by the next start, and is not begun unless it is asked for" {
    train a
    DDP_JOURNAL='' train b
    cmp "$BATS_TEST_TMPDIR/a/saved/cnn_mnist.safetensors" "$BATS_TEST_TMPDIR/b/saved/cnn_mnist.safetensors"
    lines a 0 '^save step=5 cnn_mnist.safetensors$'
    train a --resume "$BATS_TEST_TMPDIR/a/saved/cnn_mnist.safetensors" --max-steps 7
    [ "$(lines a 0 ^open | wc -l)" -eq 2 ]
    lines a 1 '^model .* step=5 '
    [ "$(lines a 1 '^step [67] ' | wc -l)" -eq 2 ]
    touch "$BATS_TEST_TMPDIR/file"
    DDP_JOURNAL=$BATS_TEST_TMPDIR/file/sub run 01_single_gpu/train --max-steps 1
    [ "$status" -ne 0 ]
    [[ $output == *"DDP_JOURNAL"* ]]
}
