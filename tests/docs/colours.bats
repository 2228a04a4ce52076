#!/usr/bin/env bats
# The colours of what people look at stand in docs/colours.css alone; they can be read and told apart.

@test "contrast suffices in both themes, and eyes without red or green cones tell the colours of a set apart" {
    run python3 -B tests/docs/colours.py
    echo "$output"
    [ "$status" -eq 0 ]
    sed 's/--rank-1: light-dark(#b37a00/--rank-1: light-dark(#b3a000/' docs/colours.css >"$BATS_TEST_TMPDIR/colours.css"
    run python3 -B tests/docs/colours.py "$BATS_TEST_TMPDIR/colours.css"
    [ "$status" -eq 1 ]
    [[ $output == *"--rank-1 on --page, light: contrast"* ]]
}
