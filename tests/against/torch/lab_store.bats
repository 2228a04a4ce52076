#!/usr/bin/env bats
# lab-store: PyTorch's clients and ranks in the store that a learner writes.
load helper

# A folder with the answer as lab/store/store.c, and its harness.
build() {
    folder=$BATS_TEST_TMPDIR/store
    mkdir -p "$folder"
    sed "$1" docs/answers/store.c >"$folder/store.c"
    make -s MINE="$folder/store.c" "$folder/store.try"
}

@test "PyTorch's clients, and three ranks with Gloo, meet in the answer to lab-store" {
    build 'p;d'
    against_torch lab_store.py "$folder/store.try"
}

@test "PyTorch's clients notice a COMPARE_SET that is wrong" {
    build 's/if (blob_compare(&value, &expected) == 0)/if (true)/'
    run "$TORCH_BIN/python" -B tests/against/torch/lab_store.py "$folder/store.try"
    [ "$status" -ne 0 ]
}
