#!/usr/bin/env bats
# make slides: the decks of teach/slides, and the hand-out. tests/against/browser/slides.bats looks at them in Chromium.

# deck LINE...: a tree whose only deck, of chapter 02, has these lines.
deck() {
    tree=$BATS_TEST_TMPDIR/tree
    rm -rf "$tree"
    mkdir -p "$tree/teach/slides"
    ln -s "$PWD/teach/slides.html" "$tree/teach"
    mkdir "$tree/docs"
    cp -r docs/*.md docs/answers docs/pictures docs/moving docs/colours.css "$tree/docs"
    printf '%s\n' "$@" >"$tree/teach/slides/02_multi_gpu_spawn.txt"
    run python3 -B -c "import sys; sys.path.insert(0, 'teach'); import pathlib, slides
slides.TOP, slides.DOCS = pathlib.Path('$tree'), pathlib.Path('$tree/docs')
sys.argv = ['slides', '$tree/out']
sys.exit(slides.main())"
    echo "$output"
}

@test "every chapter has slides; all that they show is in the file, and nothing is fetched" {
    run teach/slides.py "$BATS_TEST_TMPDIR/out"
    echo "$output"
    [ "$status" -eq 0 ]
    for chapter in docs/0[1-5]_*.md; do
        page=$BATS_TEST_TMPDIR/out/$(basename "$chapter" .md).html
        [ "$(grep -c '<section' "$page")" -ge 9 ] && [ "$(grep -c '<section' "$page")" -le 12 ]
        [ "$(grep -c '<p class=ask>' "$page")" -ge 2 ]
        grep -q "<p>$(sed -n '/^## You will learn/{n;n;s/^\([A-Za-z ]*\).*/\1/p}' "$chapter")" "$page" # the first slide's notes
        ! grep -oE '(src|href)="[^"]*' "$page" | grep -v '^src="data:' || false
        ! grep -E '(src|href)=&quot;|@import|url\(&quot;' "$page" || false # nor by a picture in a frame
        [ "$(wc -c <"$page")" -le 450000 ]
    done
}

@test "the five pictures that move are on the slides, the walk in each chapter from 02 on, each before a still one" {
    teach/slides.py "$BATS_TEST_TMPDIR/out"
    [ "$(cat "$BATS_TEST_TMPDIR"/out/*.html | grep -c '<figure class=moving><img .*<iframe title=')" -eq 9 ]
    for page in docs/moving/*.html; do
        [[ $page != */play.html && $page != */schedule.html ]] || continue # no pictures: their workers run what a reader chooses
        grep -qF "<iframe title=\"$(sed -n 's:<title>\(.*\)</title>:\1:p' "$page")\"" "$BATS_TEST_TMPDIR"/out/*.html
    done
    deck 'slide One' 'show buckets.svg' 'moving waltz' 'say a'
    [[ $status -eq 1 && $output == *"there is no docs/moving/waltz.html"* ]]
    deck 'slide One' 'moving ring' 'say a'
    [[ $status -eq 1 && $output == *"'One': what moves needs a picture to show on paper"* ]]
}

@test "a slide shows what the chapter has: code, output, table, picture" {
    deck 'slide One' 'show answers/02_multi_gpu_spawn.md: static void run_batch(' 'say a' 'slide Two' 'show buckets.svg' 'point `x < 1`' 'say b' \
        'slide Three' 'show model.md: call | from, to |' 'only destroy' 'only broadcast' 'say c'
    [ "$status" -eq 0 ]
    page=$tree/out/02_multi_gpu_spawn.html
    grep -q '<ins>+    all_reduce(pg, model-&gt;grads, model-&gt;numel, FLOAT32, REDUCE_MEAN);</ins>' "$page"
    grep -qF "$(base64 -w 0 docs/pictures/buckets.svg)" "$page"
    grep -q '<li><code>x &lt; 1</code></li>' "$page"
    [ "$(grep -o '<tr>' "$page" | wc -l)" -eq 2 ] # the head, and the row with broadcast
    sed -i 's/    all_reduce(pg, model->grads, model->numel/    all_reduce(pg, model->grads, 7/' "$tree/docs/answers/02_multi_gpu_spawn.md"
    python3 -B -c "import sys; sys.path.insert(0, 'teach'); import pathlib, slides
slides.DOCS = pathlib.Path('$tree/docs')
print(slides.deck_html(pathlib.Path('$tree') / 'teach/slides/02_multi_gpu_spawn.txt'))" | grep -q 'all_reduce(pg, model-&gt;grads, 7'
}

@test "a deck that is wrong ends the generator with a line that says where" {
    deck 'slide One' 'show what no chapter has' 'say a'
    [[ $status -eq 1 && $output == *"nothing in docs/02_multi_gpu_spawn.md has 'what no chapter has'"* ]]
    deck 'slide One' 'point 1' 'point 2' 'point 3' 'point 4' 'say a'
    [[ $status -eq 1 && $output == *"'One': a slide has at most three points, one of them a question, one show or one below a picture, and something to say"* ]]
    deck 'slide One' 'show answers/02_multi_gpu_spawn.md: static void run_batch(' 'show buckets.svg' 'say a'
    [[ $status -eq 1 && $output == *"one show or one below a picture"* ]]
    deck 'slide One' 'show buckets.svg' 'show STAGE=a 02_multi_gpu_spawn/run.sh' 'say a'
    [ "$status" -eq 0 ]
    grep -q '<figure><img .*</figure><figure><pre ' "$tree/out/02_multi_gpu_spawn.html"
    deck 'slide One' 'point 1'
    [[ $status -eq 1 && $output == *"something to say"* ]]
    mapfile -t many < <(for i in {1..12}; do printf "%s\n" "slide $i" "ask a?" "say a"; done)
    deck "${many[@]}"
    [[ $status -eq 1 && $output == *"13 slides with the title's: nobody remembers more than 12"* ]]
    deck 'slide 2' 'ask a?' 'say a' 'slide 3' 'say a' 'slide 4' 'say a' 'slide 5' 'say a' 'slide 6' 'say a'
    [ "$status" -eq 0 ]
    deck 'slide 2' 'ask a?' 'say a' 'slide 3' 'say a' 'slide 4' 'say a' 'slide 5' 'say a' 'slide 6' 'say a' 'slide 7' 'say a'
    [[ $status -eq 1 && $output == *"slides 3 to 7 ask nothing"* ]]
    deck 'slide One' 'says a'
    [[ $status -eq 1 && $output == *"02_multi_gpu_spawn.txt:2: a line begins with "* ]]
    run python3 -B -c "import sys; sys.path.insert(0, 'teach'); import slides; print(slides.code_html('text', ['a line'] * 40))"
    [[ $status -ne 0 && $output == *"is too long for a slide"* ]]
}

@test "a line that is too long for a slide is broken where a reader would break it" {
    run python3 -B -c "import sys; sys.path.insert(0, 'teach'); import slides
for kind, line in (('code', '+    all_reduce(pg, mean_of(a, b), numel, FLOAT32); // of all'), ('code', '-    if (a == bb && f(c, d) != 0) {'),
                   ('code', '    // one two three four five six'), ('typed', './run.sh 2 --epochs 2 --keep 1 | grep \'a --b\''), ('', 'a --b c d e f g h i j k l m n o p q')):
    print(*slides.broken(line, 32, kind), sep='|')"
    echo "$output"
    [ "${lines[0]}" = '+    all_reduce(pg,|+        mean_of(a, b), numel,|+        FLOAT32); // of all' ]
    [ "${lines[1]}" = '-    if (a == bb|-        && f(c, d) != 0) {' ]
    [ "${lines[2]}" = '    // one two three four five|    // six' ]
    [ "${lines[3]}" = "./run.sh 2 --epochs 2 --keep 1 \\|    | grep 'a --b'" ]
    [ "${lines[4]}" = 'a --b c d e f g h i j k l m n o|    p q' ]
    # A command that goes on in the next line is broken anew, and not early.
    run python3 -B -c "import sys; sys.path.insert(0, 'teach'); import slides
print(*slides.joined([*map(slides.Typed, ['for a in 1; do \\\\', '    b --c', 'd']), 'e \\\\', 'f']), sep='|')
print(*slides.broken('./run --a 2 sh -c \'one two three\'', 32, 'typed'), sep='|')"
    echo "$output"
    [ "${lines[0]}" = "for a in 1; do b --c|d|e \\|f" ]
    [ "${lines[1]}" = "./run --a 2 sh -c \\|    'one two three'" ]
}

@test "the hand-out has its headings, tables, lists and code" {
    teach/handout.py "$BATS_TEST_TMPDIR/handout.html"
    for tag in h1 h2 p li td pre code; do grep -q "<$tag>" "$BATS_TEST_TMPDIR/handout.html"; done
    [ "$(grep -o '<h2>' "$BATS_TEST_TMPDIR/handout.html" | wc -l)" -eq "$(grep -c '^## ' teach/handout.md)" ]
    ! grep -E '^(#|\||```|- )' "$BATS_TEST_TMPDIR/handout.html" # no Markdown is left
}
