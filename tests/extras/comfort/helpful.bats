#!/usr/bin/env bats
# Help for users of the trainers and the launcher: suggested names, the CPU quota, a line about too many ranks per core.

bats_require_minimum_version 1.5.0

refused() { # MESSAGE COMMAND...: one line with the message, status 2
    local message=$1
    shift
    run -2 "$@"
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$message"* ]]
}

setup() {
    unset LOCAL_RANK RANK
}

@test "an option that is misspelt or cut short: the one that may be meant" {
    refused "train: --batchsize is no option: did you mean --batch-size? --help lists them" 01_single_gpu/train --batchsize 64
    refused "did you mean --epochs?" 01_single_gpu/train --epoch 3
    refused "--moment is no option: did you mean --momentum?" 01_single_gpu/train --moment=3
    refused "--zzz is no option: --help lists them" 01_single_gpu/train --zzz
    refused "did you mean --epochs?" 03_torchrun_env/ddprun --nproc-per-node 2 03_torchrun_env/train --epohcs 2
}

@test "so in the configuration file, of all steps' options" {
    printf 'lr: 1\nbatchsize: 3\n' >"$BATS_TEST_TMPDIR/c.yaml"
    refused "c.yaml:2: batchsize is no option: did you mean batch-size?" 01_single_gpu/train --config "$BATS_TEST_TMPDIR/c.yaml"
    echo 'nprocs: 3' >"$BATS_TEST_TMPDIR/c.yaml"
    refused "did you mean nproc?" 01_single_gpu/train --config "$BATS_TEST_TMPDIR/c.yaml"
    echo 'check-snyc: 3' >"$BATS_TEST_TMPDIR/c.yaml" # which step 01 has not even linked
    refused "did you mean check-sync?" 01_single_gpu/train --config "$BATS_TEST_TMPDIR/c.yaml"
}

@test "so with the launcher's flags" {
    refused "ddprun: unknown flag --nproc-pre-node: did you mean --nproc-per-node? ddprun --help lists them all" 03_torchrun_env/ddprun --nproc-pre-node 2 true
    refused "unknown flag --nodes=2: did you mean --nnodes?" 03_torchrun_env/ddprun --nodes=2 true
    refused "unknown flag -log_dri: did you mean --log-dir?" 03_torchrun_env/ddprun -log_dri x true
    refused "ddprun: unknown flag --quux; ddprun --help lists them all" 03_torchrun_env/ddprun --quux true
}

@test "many ranks on one core: it says that they take a while" {
    run -0 taskset -c "$(taskset -cp $$ | sed 's/.*[:,-] *//')" 03_torchrun_env/ddprun --nproc-per-node 17 true
    [ "$output" = "ddprun: 17 ranks share 1 core: it takes a while until all have come" ]
}

@test "--nproc-per-node cpu: no more than the quota of a control group above ours" {
    mkdir -p "$BATS_TEST_TMPDIR/groups/a/b"
    echo "100000 100000" >"$BATS_TEST_TMPDIR/groups/a/cpu.max"
    echo "max 100000" >"$BATS_TEST_TMPDIR/groups/a/b/cpu.max"
    echo "0::/a/b" >"$BATS_TEST_TMPDIR/own"
    unshare --user --map-root-user --mount true || skip "this machine has no namespaces"
    run -0 unshare --user --map-root-user --mount env OUT="$BATS_TEST_TMPDIR" sh -c 'mount --bind "$OUT/groups" /sys/fs/cgroup &&
        mount --bind "$OUT/own" /proc/$$/cgroup && exec "$@"' sh \
        03_torchrun_env/ddprun --nproc-per-node cpu sh -c 'echo "ranks: $WORLD_SIZE"'
    [ "$output" = "ranks: 1" ]
}

@test "more ranks than the cores can start at once: a line says so before they come" {
    export OMP_NUM_THREADS=1
    for step in 02_multi_gpu_spawn 03_torchrun_env; do
        run timeout 300 taskset -c 0 $step/run.sh 17 --model linear --max-steps 1 --checkpoint-dir "$BATS_TEST_TMPDIR"
        echo "$output"
        [ "$status" -eq 0 ]
        [[ ${lines[0]} == *": 17 ranks share 1 core: it takes a while until all have come" ]]
        [ "$(grep -c 'share 1 core:' <<<"$output")" -eq 1 ]
    done
    run timeout 300 taskset -c 0 03_torchrun_env/ddprun --nproc-per-node 16 true
    [ "$status" -eq 0 ] && [ -z "$output" ]
}
