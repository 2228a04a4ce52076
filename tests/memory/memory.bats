#!/usr/bin/env bats
# A run takes the memory that docs/beyond_ddp.md predicts, within 10 %.

@test "the peaks of real runs are those of the formula" {
    mnist=
    for folder in data/mnist ../shared/data/mnist; do
        [ ! -e "$folder/train-images-idx3-ubyte.gz" ] || mnist=$folder
    done
    run tests/memory/formula.py $mnist
    echo "$output"
    echo "$output" | sed -n 's/.*: skipped/# &/p' >&3
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | grep -c ' % off')" -ge 7 ]
}
