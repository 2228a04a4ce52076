#!/usr/bin/env bats
# The first reading, which common/README.md lists: it is short, and what is said about its files is so.

TOP=${BATS_TEST_DIRNAME%/tests/*}

@test "at most 5,200 lines in at most 38 files, each of them there and as long as it says" {
    run "$TOP/tests/house/reading.py"
    echo "$output"
    [ "$status" -eq 0 ]
    read -r lines _ _ files _ <<<"${output//,/}"
    [ "$lines" -le 5200 ]
    [ "$files" -le 38 ]
}

@test "what a chapter walks under the hood is listed, and what is listed is named in its chapter" {
    mkdir -p "$BATS_TEST_TMPDIR/tests/house"
    cp -r "$TOP/common" "$TOP/docs" "$TOP/05_fault_tolerance" "$BATS_TEST_TMPDIR"
    cp "$TOP/tests/house/reading.py" "$BATS_TEST_TMPDIR/tests/house"
    cd "$BATS_TEST_TMPDIR"
    tests/house/reading.py

    sed -i 's/^## Under the hood$/&\n\nsee `store_server.c`/' docs/03_torchrun_env.md
    sed -i '/^. .`comm.env.c`/a| [`net.c`](comm/store/net.c) | 320 | TCP |' common/README.md
    run tests/house/reading.py
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"docs/03_torchrun_env.md: walks store_server.c"* ]]
    [[ $output == *"docs/03_torchrun_env.md: does not name net.c"* ]]
}
