#!/usr/bin/env bats
# The diffs between the steps are lessons and stay short.

# hunks FILE FILE [OPTION]: how many places differ.
hunks() {
    diff "$@" | grep -c '^[0-9]'
}

@test "each step changes no more lines than it may" {
    [ "$(tools/stepdiff.sh --count | wc -l)" -ge 5 ]
    tools/stepdiff.sh --count | awk '$(NF - 2) < 1 || $(NF - 2) > $NF { print; bad = 1 } END { exit bad }'
}

@test "no place in a diff is white space alone" {
    tools/stepdiff.sh --count | while read -r _ before program _; do
        echo "$before $program"
        [ "$(hunks "$before" "$program")" -eq "$(hunks "$before" "$program" -w -B)" ]
    done
}

@test "no line is moved from one place to another" {
    tools/stepdiff.sh --count | while read -r _ before program _; do
        diff -w "$before" "$program" | sed -n 's/^< *\(.\{20,\}\)/\1/p' | sort >"$BATS_TEST_TMPDIR/gone"
        diff -w "$before" "$program" | sed -n 's/^> *\(.\{20,\}\)/\1/p' | sort >"$BATS_TEST_TMPDIR/new"
        moved=$(comm -12 "$BATS_TEST_TMPDIR/gone" "$BATS_TEST_TMPDIR/new")
        [ -z "$moved" ] || { echo "$program: $moved" && false; }
    done
}

@test "stepdiff prints a diff, or says which steps there are" {
    tools/stepdiff.sh 02 | grep -q '^+.*reducer_finalize(reducer);'
    tools/stepdiff.sh dp | grep -q '^-    replicas_reduce_add(replicas);'
    run tools/stepdiff.sh 2
    [ "$status" -eq 2 ]
    [[ $output == *"02a 02b 02c 02 03 04 "* ]]
}
