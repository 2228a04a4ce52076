#!/usr/bin/env bats
# What README, docs/ and the steps' READMEs quote from the tree's files is correct (tools/docs.py checks it). The other
# files of this folder check what their commands print.

@test "the table's line counts are those of the diffs" {
    counts=$(sed -n 's/^| .* | \([0-9]*\) |$/\1/p' README.md)
    [ "$counts" = "$(tools/stepdiff.sh --count | awk '/^0[1-5][a-c]?:/ { print $(NF - 2) }')" ]
}

# bats test_tags=slow
@test "the table's programs end with the accuracy that it says, to 3 %" {
    cp -r data config.yaml Makefile 0* "$BATS_TEST_TMPDIR" && cd "$BATS_TEST_TMPDIR"
    sed -n 's/^| .* | `\(.* && \)\?\(.*\)` | \([0-9].*\) | [0-9 ]*|$/\2@\3/p' "$OLDPWD/README.md" >rows
    [ "$(wc -l <rows)" -eq 8 ]
    while IFS=@ read -r command says; do
        rm -rf checkpoints
        sh -c "$command" 2>/dev/null | sed -n 's/^Test Epoch: 9 .*Accuracy: \(.*\)%.*/\1/p' | sort -ru >knows
        echo "$command: $(paste -s knows), and it should be $says"
        paste -d ' ' knows <(grep -o '[0-9]*' <<<"$says") | awk '$1 - $2 > 3 || $2 - $1 > 3 || NF < 2 { bad = 1 } END { exit bad || !NR }'
    done <rows
}

@test "excerpts of files and diffs are the real ones, in all documents" {
    run tools/docs.py quotes
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "make docs puts true lines in the place of stale ones, and the check finds those" {
    document=$BATS_TEST_TMPDIR/document.md
    cat >"$document" <<'END'
<!-- varies: numbers, order -->
```sh
printf 'b  12\na 0.5\n'
export WORD=one
```

```text
a 3.25
b 1
```

```sh
echo 0.40001
echo $WORD
```

```text
0.40000
two
```
<!-- from: echo 7; echo x -->
```text
8
```
<!-- needs: no-such-program -->
```sh
no-such-program
```

```text
untouched
```

```sh
echo not run, since no text is below it
```
END
    run tools/docs.py check "$document"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"document.md:18: quoted"*"document.md:23: quoted"*"document.md:31: not run: there is no no-such-program" ]]
    [[ $output != *"document.md:8:"* ]]
    sed -i 's/^two$/one/' "$document"
    run tools/docs.py check "$document"
    [[ $output != *"document.md:18: quoted"* ]]
    tools/docs.py refresh "$document"
    tools/docs.py check "$document"
    grep -q '^x$' "$document"
    grep -q '^untouched$' "$document"
    grep -q '^echo 0.40001$' "$document"
    printf '```c\nint i;\n```\n' >"$document"
    run tools/docs.py check "$document"
    [ "$status" -eq 1 ]
}

@test "a quoted command may have several lines, of at most 100 columns" {
    document=$BATS_TEST_TMPDIR/document.md
    cat >"$document" <<'END'
```sh
echo one \
    two | awk '
    { print $2 }'
echo three
```

```text
two
three
```
END
    tools/docs.py check "$document"
    sed -i "s/^echo three/& $(printf '%90s')/" "$document"
    run tools/docs.py check "$document"
    [ "$status" -eq 1 ]
    [[ $output == *"document.md:2: a command's line of 101 columns, at most 100"* ]]
}

@test "commands that are said to print nothing do, notes have what they speak of, and prompts are refused" {
    document=$BATS_TEST_TMPDIR/document.md
    printf '<!-- prints: nothing -->\n```sh\nexport WORD=one\n```\n' >"$document"
    tools/docs.py check "$document"
    tools/docs.py refresh "$document"
    grep -q WORD "$document"
    sed -i 's/^export/echo/' "$document"
    run tools/docs.py check "$document"
    [[ $status -eq 1 && $output == *"document.md:3: quoted"*"but it is"*"WORD=one" ]]
    sed -i 's/prints: nothing/varies: numbers/' "$document" # and no text follows
    run tools/docs.py check "$document"
    [[ $status -eq 1 && $output == *"document.md:3: a block that does not say where it comes from" ]]
    printf '```sh\ntrue\n```\n\n```text\nnothing\n```\n' >"$document"
    run tools/docs.py check "$document"
    [[ $status -eq 1 && $output == *"document.md:6: its command prints nothing" ]]
    printf '```console\n$ echo one\none\n```\n' >"$document"
    run tools/docs.py check "$document"
    [[ $status -eq 1 && ${#lines[@]} -eq 1 && $output == *"document.md:2: a \`\`\`console block: "* ]]
}

@test "every exercise has an answer, and every answer its exercise" {
    for page in docs/*.md; do
        [ "$page" != docs/traps.md ] || continue # its exercises are the traps
        answers=docs/answers/$(basename "$page") exercises=$(awk '/^## / { in_it = $0 == "## Exercises" } in_it' "$page" | grep -o '^[0-9]*\.' || true)
        echo "$page: $(tr '\n' ' ' <<<"$exercises")"
        [ -n "$exercises" ] || { [ ! -e "$answers" ] && continue; }
        diff <(echo "$exercises") <(sed -n 's/^## \([0-9]*\.\) .*/\1/p' "$answers")
        grep -q "](answers/$(basename "$page"))" "$page"
    done
}

@test "every file and folder they name is there" {
    python3 - README.md */README.md beyond/*/README.md extras/*/README.md 05_*/*/README.md docs/*.md docs/answers/*.md teach/*.md <<'END'
import os, re, sys
lost = [f'{document}: {link}' for document in sys.argv[1:] if os.path.exists(document)
        for link in re.findall(r'\]\(([^)#\n]+)', open(document).read())
        if not link.startswith('http') and not os.path.exists(os.path.join(os.path.dirname(document), link))]
sys.exit('\n'.join(lost) or 0)
END
}

@test "the page that follows another names it as the one before, at its top and at its end" {
    previous=README.md page=00_setup.md pages=0
    while [ "$page" != README.md ]; do
        line=$(grep -m 1 '^←' "docs/$page")
        echo "$page: $line"
        [[ $line == "← ["*"]($previous) · "* ]]
        [ "$(grep -c -xF "$line" "docs/$page")" -eq 2 ]
        previous=$page page=$(sed 's/.*](\(.*\)).*/\1/' <<<"$line") pages=$((pages + 1))
    done
    [ "$pages" -eq "$(grep -l '^←' docs/*.md | wc -l)" ] # all of them
}

@test "a chapter has at most 3,200 words, the README 650, and the book 56,000, or 45,000 without its code" {
    for chapter in docs/0[0-5]_*.md; do
        words=$(wc -w <"$chapter")
        echo "$chapter: $words words"
        [ "$words" -le 3200 ]
    done
    [ "$(wc -w <README.md)" -le 650 ]
    words=$(cat docs/*.md | wc -w)
    echo "docs/*.md: $words words"
    [ "$words" -le 56000 ]
    words=$(cat docs/*.md | sed -e '/^ *```/,/^ *```/d' -e '/^    /d' | wc -w)
    echo "docs/*.md: $words words without code"
    [ "$words" -le 45000 ]
}

@test "what is folded has a summary and no heading, and begins and ends with an empty line, so that it is Markdown" {
    for page in docs/*.md; do
        awk -v page="$page" '
            /^```/ { code = !code }
            code { last = $0; next }
            /^<details>$/ { if (inside || last != "") bad(); inside = 1 }
            last == "<details>" && !/^<summary>.*<\/summary>$/ { bad() }
            last ~ /^<summary>/ && $0 != "" { bad() }
            inside && /^#/ { bad() }
            /^<\/details>$/ { if (!inside || last != "") bad(); inside = 0 }
            last == "</details>" && $0 != "" { bad() }
            { last = $0 }
            function bad() { print page ":" FNR ": " $0; wrong = 1 }
            END { exit wrong || inside }' "$page"
    done
    ! grep -n '^```diff' docs/0[2-5]_*.md # our solutions are in docs/answers: in a terminal nothing is folded
}

@test "the pictures are those that their sources draw, and each is shown somewhere" {
    docs/pictures/draw.py "$BATS_TEST_TMPDIR"
    [ "$(ls docs/pictures/*.svg | wc -l)" -eq "$(ls "$BATS_TEST_TMPDIR"/*.svg | wc -l)" ]
    for picture in docs/pictures/*.svg; do
        cmp "$picture" "$BATS_TEST_TMPDIR/$(basename "$picture")"
        grep -q "](pictures/$(basename "$picture"))" docs/*.md || { echo "$picture" && return 1; }
    done
}

@test "tools/break.sh leaves the program alone, and says so where an edit changes nothing" {
    before=$(cat 01_single_gpu/train.c)
    run tools/break.sh 01 '/model_zero_grad/d' --model linear --max-steps 1
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == "<     model_zero_grad(model);" ]]
    [ "$(cat 01_single_gpu/train.c)" = "$before" ]
    run tools/break.sh 05 's/^/ /' 1 --model linear --inject exit:0:2
    [[ $status -eq 1 && ${lines[-1]} == "tools/break.sh: this run's folder is deleted, "*"to keep them add --checkpoint-dir "* ]]
    run tools/break.sh 05 's/^/ /' 1 --model linear --inject exit:0:2 --checkpoint-dir "$BATS_TEST_TMPDIR"
    [[ $status -eq 1 && $output != *"tools/break.sh: "* ]]
    run tools/break.sh 01_single_gpu/one_layer.c 's/target\[OUT\] = { 1 }/target[OUT] = { 0 }/'
    [[ $status -eq 0 && $output == *"step 1: y 0.1, loss 0.01;"* ]]
    run tools/break.sh 01_single_gpu/nosuch.c d
    [[ $status -eq 2 && $output == "Usage:"* ]]
    run tools/break.sh 02 's/no such line//' 2
    [ "$status" -eq 2 ]
    [[ $output == *"changes nothing in 02_multi_gpu_spawn/train.c"* ]]
    run tools/break.sh 01 's/const int rank = 0,/const int rank = ;/'
    [ "$status" -eq 1 ]
    run tools/break.sh 01 nosuch.sed
    [ "$status" -eq 2 ]
    [[ $output == *"there is no file nosuch.sed" ]]
    run tools/break.sh 01 docs/edits/nosuch
    [ "$status" -eq 2 ]
    [[ $output == *"docs/edits/nosuch is no file, and no command: "* ]]
    run tools/break.sh 06 d
    [ "$status" -eq 2 ]
    [[ $output == "Usage:"* ]]
}

@test "tools/slow_line.sh slows the line down, where this machine lets it" {
    run tools/slow_line.sh 1gbit true
    [ "$status" -eq 0 ] || skip "no network of one's own here"
    run tools/slow_line.sh 1gbit 02_multi_gpu_spawn/run.sh 2 --model linear --max-steps 3 --checkpoint-dir "$BATS_TEST_TMPDIR"
    [ "$status" -eq 0 ]
    tools/slow_line.sh 3mbit tc qdisc show dev lo | grep -q 'rate 3Mbit'
    run tools/slow_line.sh 1gbit
    [ "$status" -eq 2 ]
}
