#!/usr/bin/env bats
# The programs' logs: DDP_LOG and TORCH_LOGS.

setup() {
    repo=$PWD
    cd "$BATS_TEST_TMPDIR" || exit
}

# told COMMAND...: its standard error goes to the file told, through a pipe: in a file rank 0 also prints its settings.
told() {
    "$@" 2>&1 >/dev/null | cat >told
    local status=${PIPESTATUS[0]}
    cat told
    return "$status"
}

@test "DDP_LOG tells what was asked for: the buckets' plan, the order in which they leave, the rows" {
    DDP_LOG=bucket,sampler told "$repo/03_torchrun_env/run.sh" 2 --max-steps 1
    # 1,199,882 parameters in two buckets: the last layers' in the first.
    grep -qE '^\[rank 1/2\] [0-9:.]{15} bucket: bucket 0 of 2, fc1.weight to fc2.bias, 4.505 MiB, is planned$' told
    grep -qE '^\[rank 1/2\] [0-9:.]{15} bucket: bucket 1 of 2, conv1.weight to conv2.bias, 0.072 MiB, is complete and leaves$' told
    first=$("$repo/tools/shards" --size 1437 --world-size 2 --rank 0 | head -n 1)
    grep -q "rank 0/2.*epoch 0, shuffled: 719 of 1437 rows are ours, the first is row $first; 1 come twice" told
    grep 'rank 0/2.* bucket: ' told | sed 's/.*bucket: //' | tail -n 4 | cut -c1-17 >order
    [ "$(tr '\n' '|' <order)" = 'bucket 0 of 2, fc|bucket 1 of 2, co|the backward pass|all buckets are b|' ]
    ! grep -q 'store:\|distributed:' told
}

@test "DDP_LOG=store,distributed: who serves, who came, who waits for whom" {
    cat >late.sh <<'END'
#!/bin/sh
[ "$RANK" = 0 ] || timeout 300 sh -c "until grep -q 'store: waiting for key' told; do sleep 0.05; done"
exec "$@"
END
    DDP_LOG=store,distributed told "$repo/03_torchrun_env/ddprun" --nproc-per-node 2 sh late.sh \
        "$repo/03_torchrun_env/train" --model linear --max-steps 1
    grep -q 'rank 0/2.* store: connected to .* after' told
    grep -q 'rank 0/2.* store: waiting for key ".*agreement 0"' told
    grep -q 'rank 1/2.* distributed: all 2 ranks are there after' told
    grep -q 'rank 0/2.* distributed: connected by tcp after' told
}

@test "PyTorch's TORCH_LOGS turns on what it calls distributed; a wrong word is one warning" {
    TORCH_LOGS=+distributed,dynamo told "$repo/03_torchrun_env/run.sh" 2 --model linear --max-steps 1
    grep -q ' distributed: ' told
    ! grep -q 'warning' told || false
    TORCH_LOGS=-distributed told "$repo/03_torchrun_env/run.sh" 2 --model linear --max-steps 1
    [ ! -s told ]
    DDP_LOG=buckets told "$repo/03_torchrun_env/run.sh" 2 --model linear --max-steps 1
    [ "$(wc -l <told)" -eq 1 ] && grep -q 'rank 0/2.*warning: DDP_LOG=buckets: there are distributed, bucket, store, sampler and all' told
}

@test "nobody is told anything who has not asked" {
    told "$repo/03_torchrun_env/run.sh" 2 --max-steps 2
    [ ! -s told ]
}
