#!/usr/bin/env bats
# What README, docs/ and the steps' READMEs quote is true (tools/docs.py says how that is known).

@test "the table's line counts are those of the diffs" {
    counts=$(sed -n 's/^| .* | \([0-9]*\) |$/\1/p' README.md)
    [ "$counts" = "$(tools/stepdiff.sh --count | awk '{ print $(NF - 2) }')" ]
}

@test "commands print what is quoted, excerpts and diffs are the real ones" {
    run tools/docs.py check
    echo "$output"
    echo "$output" | sed -n 's/.*: not run: /# &/p' >&3
    [ "$status" -eq 0 ]
}

@test "make docs puts true lines in the place of stale ones, and the check finds those" {
    document=$BATS_TEST_TMPDIR/document.md
    cat >"$document" <<'END'
<!-- varies: numbers, order -->
```console
$ printf 'b 12\na 0.5\n'
a 3.25
b 1
$ export WORD=one
$ echo 0.40001 $WORD
0.40000 two
```
<!-- from: echo 7; echo x -->
```text
8
```
<!-- needs: no-such-program -->
```console
$ no-such-program
untouched
```
END
    run tools/docs.py check "$document"
    [ "$status" -eq 1 ]
    [[ $output == *"document.md:3: quoted"*"document.md:12: quoted"*"document.md:16: not run: there is no no-such-program"* ]]
    sed -i 's/ two$/ one/' "$document"
    run tools/docs.py check "$document"
    [[ $output != *"document.md:3: quoted"* ]]
    tools/docs.py refresh "$document"
    tools/docs.py check "$document"
    grep -q '^x$' "$document"
    grep -q '^untouched$' "$document"
    printf '```c\nint i;\n```\n' >"$document"
    run tools/docs.py check "$document"
    [ "$status" -eq 1 ]
}

@test "every file and folder they name is there" {
    for document in README.md */README.md docs/*.md; do
        [ -e "$document" ] || continue
        for link in $(grep -o '](\([^)#]*\)' "$document" | sed 's/^](//' | grep -v '^http'); do
            [ -e "$(dirname "$document")/$link" ] || { echo "$document: $link" && return 1; }
        done
    done
}
