#!/usr/bin/env bats
# The book as a web site (make site), in a real browser, from files and without a network.

setup_file() {
    tools/site/site.sh >"$BATS_FILE_TMPDIR/said" 2>&1 || { grep -q 'is this machine online' "$BATS_FILE_TMPDIR/said" && return 0; }
    cat "$BATS_FILE_TMPDIR/said" >&2
    grep -q "^site: open build/site/index.html" "$BATS_FILE_TMPDIR/said"
}

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    ! grep -q 'is this machine online' "$BATS_FILE_TMPDIR/said" || skip "$(cat "$BATS_FILE_TMPDIR/said")"
}

@test "every link leads somewhere, and the browser is told to fetch nothing" {
    run python3 -B tests/against/browser/links.py build/site
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "no page weighs more than 400 kB before its pictures" {
    run python3 -B tests/against/browser/weight.py build/site
    echo "$output"
    [ "$status" -eq 0 ]
    # The first page's frame, styles and scripts count.
    run python3 -B -c 'import os, sys; sys.path.insert(0, "tests/against/browser"); import weight
page = "build/site/index.html"; assert weight.weight(page) > os.path.getsize(page) + 100e3'
    [ "$status" -eq 0 ]
}

@test "it is readable on desktop and phone, light and dark, on paper; search, copy and keyboard work" {
    sh -c '. tools/parts.sh; browser' >/dev/null || skip "no Chromium (./setup.sh --browser installs it)"
    run timeout 900 python3 -B tests/against/browser/site.py build/site build/browser
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "each place of a diff has a reason beside it, and one that is missing is named" {
    venv=${SITE_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/site-venv}
    run env PYTHONPATH=tools/site "$venv/bin/python" -B -c 'import diffs; diffs.steps()'
    echo "$output"
    [[ $status -eq 0 && -z $output ]]
    sed 's/^## process_group_destroy(/## process_group_destruct(/' tools/site/reasons.md >"$BATS_TEST_TMPDIR/reasons.md"
    run env PYTHONPATH=tools/site REASONS="$BATS_TEST_TMPDIR/reasons.md" "$venv/bin/python" -B -c 'import diffs; diffs.steps()'
    [[ ${lines[0]} == *"02b: 'process_group_destruct(' is in 0 places of the diff, not in 1" ]]
    [[ ${lines[1]} == *"02b: place 7 of the diff has no reason: +    process_group_destroy(&pg);" ]]
}

@test "the first page links to the repository where something says where it is; a page of docs/moving to pages of the site" {
    venv=${SITE_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/site-venv}
    run env PYTHONPATH=tools/site SITE_URL=https://book.example/ddp/ "$venv/bin/python" -B -c 'import landing
named = "license: MIT\nrepository-code: \"https://code.example/ddp\"\n"
for citation, remote, address in (("", "", ""), ("", "/srv/ddp", ""), ("", "https://who:word@code.example/a/ddp.c.git", "https://code.example/a/ddp.c"),
                                  ("", "git@code.example:a/ddp.git", "https://code.example/a/ddp"),
                                  ("", "ssh://git@code.example:2222/a/ddp.git", "https://code.example/a/ddp"), ("", "http://code.example:3000/ddp/", "http://code.example:3000/ddp"),
                                  ("", "https://code.example/", ""), ("", "https://code.example/a\" onclick=", ""), (named, "/srv/ddp", "https://code.example/ddp")):
    assert landing.repository(citation, remote) == address, (citation, remote, landing.repository(citation, remote))
page = landing.on_site(landing.read("docs/moving/ring.html"))
for text in ("<a href=\"../../index.html\">", "<a href=\"../all_reduce.html\">", "og:image\" content=\"https://book.example/ddp/docs/moving/ring.png\""):
    assert text in page, text'
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "without network and venv one line says what is missing" {
    unshare -rn true 2>/dev/null || skip "no network of one's own here"
    run unshare -rn env SITE_VENV="$BATS_TEST_TMPDIR/venv" BUILD="$BATS_TEST_TMPDIR" tools/site/site.sh
    echo "$output"
    [ "$status" -eq 1 ]
    [[ ${lines[-1]} == "site: cannot install Sphinx: is this machine online?"* ]]
    [ "${#lines[@]}" -eq 2 ] # the other says what it is about to install
}
