#!/usr/bin/env bats
# The documents are spelt as a dictionary has it (British or American), or as docs/words.txt does.

# The words of a document that no list knows: code, links and comments left out.
unknown() {
    sed -e '/^```/,/^```/d' -e '/^    /d' -e 's/<!--.*-->//' -e 's/`[^`]*`//g' \
        -e 's/](\([^)]*\))//g; s|<*https*://[^ )>]*||g' "$@" |
        tr -s ' \n' '\n' | tr -d '*|' | aspell list --lang=en --encoding=utf-8 |
        sort -u | grep -vixFf docs/words.txt
}

@test "no word is spelt as nobody spells it" {
    sed -nE 's/^(slide|point|ask|say) //p' teach/slides/*.txt >"$BATS_TEST_TMPDIR/slides"
    ! unknown "$BATS_TEST_TMPDIR/slides" README.md data/README.md docs/*.md docs/answers/*.md teach/*.md 0?_*/README.md beyond/README.md beyond/*/README.md common/README.md extras/*/README.md findings/README.md launcher/README.md 05_*/*/README.md
}

@test "the check sees a word that is none, and no code" {
    printf 'A bukcet of `grdients`.\n\n```c\nint pramater;\n```\n' >"$BATS_TEST_TMPDIR/a.md"
    [ "$(unknown "$BATS_TEST_TMPDIR/a.md")" = bukcet ]
}

@test "docs/words.txt is sorted and has no word twice" {
    LC_ALL=C sort -fuc docs/words.txt
}
