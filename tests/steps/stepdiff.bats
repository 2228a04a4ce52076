#!/usr/bin/env bats
# The diffs between the steps are lessons and stay short.

# hunks FILE FILE [OPTION]: how many places differ.
hunks() {
    diff "$@" | grep -c '^[0-9]'
}

@test "each step changes no more lines than it may" {
    [ "$(tools/stepdiff.sh --count | wc -l)" -ge 5 ]
    tools/stepdiff.sh --count | awk '$(NF - 2) < 1 || $(NF - 2) > $NF { print; bad = 1 } END { exit bad }'
    [ "$(tools/stepdiff.sh --count 02)" = "$(tools/stepdiff.sh --count | grep '^02: ')" ]
}

@test "no place in a diff is white space alone" {
    tools/stepdiff.sh --pairs | while read -r _ before program; do
        echo "$before $program"
        [ "$(hunks "$before" "$program")" -eq "$(hunks "$before" "$program" -w -B)" ]
    done
}

@test "no line is moved from one place to another" {
    tools/stepdiff.sh --pairs | while read -r _ before program; do
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

@test "twins: a train.py has 120 lines at most, what they share 150, none over 120 columns" {
    wc -l 0[1-5]_*/train*.py pytorch/twin.py | awk '$2 != "total" && $1 > ($2 ~ /twin/ ? 150 : 120) { print; bad = 1 } END { exit bad }'
    ! grep -nE '.{121}' 0[1-5]_*/*.py pytorch/*.py || false
    [ "$(tools/stepdiff.sh --pairs | grep -c '^twin-')" -eq 6 ]
}

@test "make twin shows a step beside its PyTorch, all lines of both; without PyTorch, a line says how to get it" {
    for step in 01 02a 02b 02c 02 03 05; do
        COLUMNS=400 make -s "twin-$step" >"$BATS_TEST_TMPDIR/$step"
        program=$(sed -n '1s/ *|.*//p' "$BATS_TEST_TMPDIR/$step")
        diff -B "$program" <(sed 1,2d "$BATS_TEST_TMPDIR/$step" | cut -c -198 | sed 's/ *$//')
        diff -B "${program%.c}.py" <(sed 1,2d "$BATS_TEST_TMPDIR/$step" | cut -c 202-)
    done
    run make -s twin-04
    [[ $output == *"its twin is that of 03"*04_slurm_multinode/train.c*03_torchrun_env/train.py* ]]
    run tools/twin.py 2
    [ "$status" -eq 2 ]
    mkdir "$BATS_TEST_TMPDIR/torch" && echo 'raise ImportError("No module named torch")' >"$BATS_TEST_TMPDIR/torch/__init__.py"
    PYTHONPATH=$BATS_TEST_TMPDIR run python3 -B 01_single_gpu/train.py
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"No module named torch: tests/against/torch/venv.sh gets it"* ]]
}
