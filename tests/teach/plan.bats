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

@test "each part serves an objective, and the answers of the two tests are right" {
    parts=$(sed -n '/^## What they can do/,/^## 1 /p' teach/plan.md | sed -n 's/^| [0-9]* |.*| \([0-9, ]*\) |$/\1/p' | tr -d ' ' | tr ',' '\n' | sort -n)
    [ "$parts" = "$(sed -n 's/^## \([0-9]*\) .*/\1/p' teach/plan.md)" ]
    for test in Before Afterwards; do [ "$(sed -n "/^## $test/,/^## [^$test]/p" teach/tests.md | grep -c '^[0-9]*\. ')" -eq 10 ]; done
    python3 - <<'END'
import re
from math import log
text = open("teach/tests.md").read()
numbers = [[float(n) for n in re.findall(r"-?[\d.]+", cell)] for row in re.findall(r"^\| \d+ \| (.*) \|$", text, re.M) for cell in row.split(" | ")]
def answers(classes, w, x, forks, grads, weight, rows, mb, ranks, rank, every, killed):
    dealt = -(-rows // 4)
    return [[round(log(classes), 1)], [2 * (w * x - 2) * x], [forks], [round(weight - 0.1 * sum(grads) / len(grads), 9)], [dealt, 4 * dealt - rows],
            [2 * (ranks - 1) / ranks * mb], [rank], [killed // every * every, killed % every]]
due = zip(answers(10, 0.5, 2, 2, [3, 5], 1, 10, 100, 4, 4 + 2, 20, 38), answers(26, 1, 3, 4, [1, 2, 6], 2, 11, 100, 5, 2 * 2 + 1, 25, 90))
counted = [numbers[i:i + 2] for i in range(0, 20, 2)]
assert [row for i, row in enumerate(counted) if i not in (4, 6)] == [list(pair) for pair in due], counted
END
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
