#!/usr/bin/env bats
# bench/step_model.py against numbers worked out by hand: 10 ms forward, 20 backward, 2 for the rest; a
# bucket of 1,000,000 bytes after half of the backward pass, one of 16,384 at its end. "wire": 100 us a
# message and 1 ns a byte between nodes of 8 ranks; here 10 us and 1 ns.

model() {
    run bench/step_model.py --compute 10,20,2 --buckets 0.5:1000000,1:16384 --loopback 10,1 \
        --network wire:8:100 --network eight:8:100:8 --measured 1:32,2:30,4:82 --cores 2 --out "$BATS_TEST_TMPDIR/step"
    echo "$output"
    [ "$status" -eq 0 ]
}

# row NAME RANKS: "step efficiency" in the table.
row() {
    echo "$output" | tr -d '%' | awk -v name="$1" -v ranks="$2" '
        $1 == "ranks" && $2 == 2 { for (i = 2; i <= NF; i++) if ($i == ranks) column = i }
        index($0, name) && column { sub(name, "x"); print $(2 * column - 2), $(2 * column - 1) }'
}

@test "rings, stages and doubling, to 1,024 ranks" {
    model
    # 4: 6 x (100 + 250) us end at 12.1 ms, behind the backward pass; 2 x 116.384 us are exposed.
    [ "$(row 'wire, ring' 4)" = "32.2 99" ]
    # 128, blocks of 7.8 KB: 10 + 254 x 107.8125 us + 7 x 116.384 us = 38.20 ms, of which 20 are hidden.
    [ "$(row 'wire, ring' 128)" = "50.2 64" ]
    # 1,024, shorter blocks, so doubling: 10 + 10 x 1100 us + 10 x 116.384 us = 22.16 ms.
    [ "$(row 'wire, ring' 1024)" = "34.2 94" ]
    # In 128 nodes of 8: 14 x 135 us inside, 7 x 1100 us across are hidden; 10 x 116.384 us are not.
    [ "$(row 'eight, staged' 1024)" = "33.2 96" ]
    [ "$(row 'eight, ring' 1024)" = "34.2 94" ]
    # In 16 nodes of 8: 14 x 135 us inside, 30 x 162.5 us across, the same.
    [ "$(row 'eight, staged' 128)" = "32.8 98" ]
    # 2 inside a node: 2 x 510 us are hidden, and over loopback take the time of a core all the same.
    [ "$(row 'this machine, ring' 2)" = "33.0 97" ]
    [ "$(row 'eight, ring' 2)" = "32.0 100" ]
}

@test "the error where it was measured, four ranks on two cores computing half as fast" {
    model
    [[ $output == *"    2          30.00       33.05    +10%"* ]]
    [[ $output == *"    4          82.00       65.61    -20%"* ]]
    [[ $output == *"the model is off by 16 % (root of the mean square)"* ]]
}

@test "its picture has both axes and every curve, and curves that coincide share a name" {
    model
    [ -s "$BATS_TEST_TMPDIR/step.png" ]
    for text in 'step, ms' 'efficiency, %' 'this machine, ring' 'wire, ring = eight, ring' 'eight, staged'; do
        grep -q ">$text<" "$BATS_TEST_TMPDIR/step.svg"
    done
}
