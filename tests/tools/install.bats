#!/usr/bin/env bats
# make install and make uninstall.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    export DESTDIR=$BATS_TEST_TMPDIR PREFIX=/opt/ddp
}

@test "what is installed runs anywhere, and has a manual page; what is removed is gone" {
    train=$PWD/03_torchrun_env/train
    make -s install
    cd "$BATS_TEST_TMPDIR/opt/ddp"
    [ "$(ls bin | grep -c '^ddp_')" -ge 5 ]
    bin/ddprun --nproc-per-node 2 "$train" --model linear --dataset-size 64 --max-steps 2 --save-every 0 \
        --checkpoint-dir "$BATS_TEST_TMPDIR/saved" >"$BATS_TEST_TMPDIR/said" 2>&1
    grep -q 'saved/linear_random.safetensors' "$BATS_TEST_TMPDIR/said"
    [ "$(bin/ddp_shards --size 4 --world-size 2 --rank 1 --no-shuffle | tr '\n' ' ')" = "1 3 " ]
    if command -v help2man >/dev/null; then
        grep -q 'PET_NPROC_PER_NODE' share/man/man1/ddprun.1
        [ "$(ls share/man/man1 | wc -l)" -eq "$(ls bin | wc -l)" ]
    fi
    cd - >/dev/null
    make -s uninstall
    [ -z "$(find "$BATS_TEST_TMPDIR/opt" -type f)" ]
}

@test "an argument that is none" {
    run tools/install.sh remove
    [ "$status" -eq 2 ]
    [[ $output == "usage: "* ]]
}
