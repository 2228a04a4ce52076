#!/usr/bin/env bats
# Our store and PyTorch's TCPStore, clients and servers of both.
load helper

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # these two lines are helper.bash's
    [ -n "$TORCH_BIN" ] || skip "no PyTorch on this machine"
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "extras/torch_store is not in this build"
}

@test "every operation, between PyTorch's client and ours, on our server and PyTorch's two" {
    against_torch store.py talk
}

@test "a wait in vain ends in time, on both sides" {
    against_torch store.py timeouts
}

@test "64 clients at once: PyTorch's on our server, ours on PyTorch's" {
    against_torch store.py crowd
}

@test "four gloo ranks meet in our store" {
    against_torch store.py gloo
}
