#!/usr/bin/env bats
# make check-labs: for each question of the quizzes, its experiment gives the stated answer, and other answers are
# rejected. (2 minutes)

@test "every quiz" {
    tests/labs/try_quizzes.py
}

@test "an explanation that states another answer is noticed" {
    cp -r teach "$BATS_TEST_TMPDIR/teach"
    for name in *; do [ "$name" = teach ] || ln -s "$PWD/$name" "$BATS_TEST_TMPDIR/"; done
    cd "$BATS_TEST_TMPDIR"
    mkdir -p copy/labs
    cp tests/labs/try_quizzes.py copy/labs
    copy/labs/try_quizzes.py 03
    sed -i 's/^answer 7/answer 8/; s/^answer yes/answer no/' teach/quiz/03.txt
    run copy/labs/try_quizzes.py 03
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c '^WRONG' <<<"$output")" -eq 2 ]
    [[ $output == *"the experiment says 7, the explanation 8"*"the experiment says yes, the explanation no"* ]]
}
