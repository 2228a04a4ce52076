#!/usr/bin/env bats
# The instructor's plan (teach/plan.md): its clock adds up, and what people type prints what is quoted. These are the
# 90 minutes; make rehearse runs the rest, and so does tests/labs/plan.bats.

@test "the clock is the one in the plan, and every format is as long as it says" {
    run teach/plan.py clock
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(sed -n '/^```text/,/^```/{/^```$/q;/^```/d;p}' teach/plan.md)" = "$output" ]
}

@test "every part of the plan says what one does there" {
    awk '/^## [0-9]/ { part = $0; parts++ } /^\*\*(Say|Type|Everyone is here|Late\?)\*?\*?/ { said++ }
        END { print parts, said; exit said < 3 * parts }' teach/plan.md
    for number in $(seq 31); do grep -q "^## $number " teach/plan.md; done
    for chapter in 01 02 03 04 05; do # and the slides that it names are there
        most=$(grep -c '^slide' teach/slides/"$chapter"_*.txt)
        named=$(grep '^Slides: ' teach/plan.md | tr ';' '\n' | grep "$chapter, slide" | sed "s/.*$chapter, slides*//" | grep -o '[0-9]*' | sort -n | tail -n 1)
        echo "$chapter: up to $named of $((most + 1))"
        [ "$named" -le $((most + 1)) ]
    done
}

# bats test_tags=slow
@test "the 90 minutes, rehearsed: all that is typed prints what is quoted" {
    run teach/plan.py run '90 minutes'
    echo "$output"
    echo "# ${lines[-1]}" >&3
    [ "$status" -eq 0 ]
    [[ $output == *"90 minutes: the machine works for "* ]]
}

@test "a plan that is wrong fails: another output, a line too long, minutes that do not add up" {
    plan=$BATS_TEST_TMPDIR/plan.md
    rehearse() {
        run python3 -B -c "import sys; sys.path.insert(0, 'teach'); import pathlib, plan
plan.PLAN = pathlib.Path('$plan')
sys.argv = ['plan', *sys.argv[1:]]
sys.exit(plan.main())" "$@"
        echo "$output"
    }
    # shellcheck disable=SC2016 # backquotes are Markdown's
    printf '## 1 One\nMinutes: 90 minutes 90, half a day 240, two days 960\n\n<!-- by hand: echo 7 >checkpoints -->\n```sh\ncat checkpoints\n```\n\n```text\n7\n```\n' >"$plan"
    rehearse run
    [[ $status -eq 0 && $output == *"two days: the machine works for 0 s"* ]]
    rehearse clock
    [ "$status" -eq 0 ]
    sed -i 's/^7$/8/' "$plan"
    rehearse run
    [[ $status -eq 1 && $output == *"plan.md:10: quoted"* ]]
    sed -i "s/^8$/7/; s/checkpoints$/&$(printf '%100s')/" "$plan"
    rehearse run
    [[ $status -eq 1 && $output == *" columns, at most 100"* ]]
    sed -i 's/two days 960/two days 950/' "$plan"
    rehearse clock
    [[ $status -eq 1 && $output == *"two days has 950 minutes, and must have 960"* ]]
}

@test "the kit's other pages quote what is so" {
    run tools/docs.py check teach/README.md teach/shared.md teach/handout.md
    echo "$output"
    [ "$status" -eq 0 ]
}
