#!/usr/bin/env bats
# The colours of what people look at stand in docs/colours.css alone; they can be read and distinguished.

@test "contrast suffices in both themes, and eyes without red or green cones tell the colours of a set apart" {
    run python3 -B tests/docs/colours.py
    echo "$output"
    [ "$status" -eq 0 ]
    sed 's/--rank-1: light-dark(#b37a00/--rank-1: light-dark(#b3a000/' docs/colours.css >"$BATS_TEST_TMPDIR/colours.css"
    run python3 -B tests/docs/colours.py "$BATS_TEST_TMPDIR/colours.css"
    [ "$status" -eq 1 ]
    [[ $output == *"--rank-1 on --page, light: contrast"* ]]
}

# colours FILE: each "NAME VALUE" that it sets, and for a phase both of its names.
colours() {
    grep -oE -- '--[a-z0-9-]+: (light-dark\([^)]*\)|[0-9]+);' "$1" | sed -E 's/^--(phase-)?//; s/: / /; s/;$//'
}

@test "what cannot read the file has the same colours: the pages of tools/watch and tools/serve, and the terminal" {
    comm -23 <({ colours tools/watch.html; colours tools/serve.html; } | sort -u) <(colours docs/colours.css | sort) >"$BATS_TEST_TMPDIR/others"
    cat "$BATS_TEST_TMPDIR/others"
    [ "$(colours tools/watch.html | wc -l)" -ge 30 ]
    [ "$(colours tools/serve.html | wc -l)" -ge 9 ]
    [ ! -s "$BATS_TEST_TMPDIR/others" ]
    ansi=$(colours docs/colours.css | sed -n 's/^rank-[0-7]-ansi //p' | tr '\n' ' ')
    [ "$(sed -n '/hue\[NUM_HUES\] =/,/;$/p' extras/output/terminal.c | grep -oE '38;5;[0-9]+' | cut -d ';' -f 3 | tr '\n' ' ')" = "$ansi" ]
    for name in fault warn ok; do
        number=$(colours docs/colours.css | sed -n "s/^$name-ansi //p")
        grep -qE "^#define (FAULT|WARNING|GOOD) \"38;5;$number\"" extras/output/terminal.c
    done
}
