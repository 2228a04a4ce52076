#!/usr/bin/env bats
# make quiz-...: questions about a chapter, an experiment for each, and both answers. (All of them: make check-labs.)

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab
}

@test "a quiz reads answers from a pipe, runs its experiments, and says what is right and why" {
    run teach/quiz.py 03 <<<$'7\nfour\n5\n\nYes'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"Question 1 of 4"*"Your answer (a number): 7"*$'\n$ 03_torchrun_env/ddprun'*$'\nstatus 7\n'*"You said 7, the experiment says 7: right."*"The status is that of the rank that failed first"* ]]
    [[ $output == *"That is not a number. Your answer: 5"*"rank 4 is local rank 1 of node 1"*"You said 5, but the experiment says 4."*"Ranks count through all nodes"* ]]
    [[ $output == *"rank 0: 3 threads"*$'\nThe experiment says 3.\n'* ]]
    [[ $output == *"Your answer (yes or no): Yes"*"You said Yes, the experiment says yes: right."*"Right: 2 of 4. The others once more: make quiz-03"* ]]
    [ "$(cat "$LAB/quiz_03/answers.txt")" = $'1 right 7\n2 wrong 5\n3 wrong \n4 right Yes' ]

    run teach/quiz.py 03 <<<$'4' # what is right is not asked again
    echo "$output"
    [[ $output != *"Question 1 of 4"* && $output == *"Question 2 of 4"*": right."*"Question 3 of 4"*"There are no more answers to read."*"Right: 3 of 4."* ]]
    teach/quiz.py list | grep -qx '03  3 of 4'
    run teach/quiz.py 03 1 <<<'7'
    [[ $output == *"Question 1 of 4"* && $output != *"Question 2"* ]]
    teach/quiz.py 03 3 <<<'3' | grep -qx 'Right: 4 of 4.'
    [[ $(teach/quiz.py 03 </dev/null) == "You have answered all 4 questions. Here they are again."*"Question 1 of 4"* ]]
}

@test "on a terminal it asks, and waits" {
    cat >"$BATS_TEST_TMPDIR/terminal.py" <<'END'
import os, pty, sys

pid, terminal = pty.fork()
if pid == 0:
    os.execvp("teach/quiz.py", ["teach/quiz.py", "03", "1"])
seen = b""
while not seen.endswith(b"Your answer (a number): "):
    seen += os.read(terminal, 4096)
os.write(terminal, b"7\n")
try:
    while True:
        part = os.read(terminal, 4096)
        seen += part
        if not part:
            break
except OSError: # its end is an error on Linux
    pass
sys.stdout.write(seen.decode().replace("\r", ""))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
    run python3 "$BATS_TEST_TMPDIR/terminal.py"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"Question 1 of 4"*"Your answer (a number): 7"*"You said 7, the experiment says 7: right."* ]]
}

@test "what cannot be run here is shown with the stated answer, and a broken experiment counts for nothing" {
    cp -r teach "$BATS_TEST_TMPDIR/teach"
    for name in *; do [ "$name" = teach ] || ln -s "$PWD/$name" "$BATS_TEST_TMPDIR/"; done
    sed -i '/^read status/i needs no-such-program' "$BATS_TEST_TMPDIR/teach/quiz/03.txt"
    run "$BATS_TEST_TMPDIR/teach/quiz.py" 03 1 <<<'6'
    echo "$output"
    [[ $output == *"The experiment is not run, since there is no no-such-program here."*"You said 6, but the experiment says 7."* ]]
    sed -i '/^needs/d; s/^read status.*/read nothing of (this)/' "$BATS_TEST_TMPDIR/teach/quiz/03.txt"
    rm -r "$LAB"
    run "$BATS_TEST_TMPDIR/teach/quiz.py" 03 1 <<<'7'
    echo "$output"
    [[ $output == *"The experiment gave no answer, so something is wrong with it."*"Right: 0 of 4."* ]]
    [ ! -e "$LAB" ]
}

@test "each chapter asks three questions or more, and its page says so" {
    python3 - <<'END'
import re, sys
from pathlib import Path
sys.path.insert(0, "teach")
import quiz
NUMBER = ["no", "one", "two", "three", "four", "five"]
named = re.findall(r"make quiz-(\w+)` asks (\w+) questions,", "".join(page.read_text() for page in Path("docs").glob("*.md")))
chapters = [key for key, _ in quiz.chapters()]
assert sorted(chapters) == quiz.names() and len(chapters) >= 13, chapters
assert sorted(named) == [(name, NUMBER[len(quiz.Quiz(name).questions)]) for name in quiz.names()], named
for name in quiz.names():
    print(name)
    assert len(quiz.Quiz(name).questions) >= 3
    for question in quiz.Quiz(name).questions: # has all it needs, and explains the answer that it states
        answer, recorded = question.text("answer"), question.all("prints")
        assert not recorded or question.is_right(answer, question.found(recorded)), (name, recorded)
        assert all(question.text(word) for word in ("ask", "run", "read", "answer", "because")), question.lines
        assert re.compile(question.text("read"), re.M).groups == 1, question.lines
        assert question.understood(answer) is not None and answer in question.text("because"), question.lines
        assert {key for key, _ in question.lines} <= {"ask", "choose", "run", "prints", "read", "within", "needs", "answer", "because"}
END
}

@test "a quiz that is none, and a question that is none, are named" {
    run teach/quiz.py 77
    [ "$status" -eq 2 ]
    [[ $output == *"'77' is none of 00 01 "* ]]
    run teach/quiz.py 03 9
    [ "$status" -eq 2 ]
    [[ $output == *"quiz 03 has the questions 1 to 4" ]]
    run teach/quiz.py
    [ "$status" -eq 2 ]
    run make quiz-77 BUILD="$BATS_TEST_TMPDIR/build"
    [ "$status" -eq 2 ]
    [ ! -e "$BATS_TEST_TMPDIR/build" ] # before anything is built
}
