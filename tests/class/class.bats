#!/usr/bin/env bats
# make check-class: the grader of teach/class gives right programs all points, wrong ones those of the checks that they
# pass, and ways to fool it none. Needs bubblewrap; a machine that allows no namespaces is named.

setup() {
    handed=$BATS_TEST_TMPDIR/handed
    mkdir -p "$handed/lab/02b"
    [ "$(id -u)" -eq 0 ] || command -v newuidmap >/dev/null || skip "uidmap is not installed: ./setup.sh --checks"
}

# grade [OPTION...]: of lab 02b in $handed, as Gradescope's results.json.
grade() {
    timeout 500 teach/class/grade "$handed" --labs 02b --format gradescope --output "$BATS_TEST_TMPDIR/results.json" "$@"
}

score() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["score"])' "$BATS_TEST_TMPDIR/results.json"
}

# Ours, with the mean in a function of its own: another program that does the same.
other_way() {
    sed 's/^    all_reduce(pg, model->grads.*/    average(pg, model);/; s/^static .*run_batch(/static void average(ProcessGroup *pg, Model *model)\n{\n    all_reduce(pg, model->grads, model->numel, FLOAT32, REDUCE_MEAN);\n}\n\n&/' \
        02_multi_gpu_spawn/train_b_all_reduce.c >"$handed/lab/02b/train.c"
    grep -q '^static void average' "$handed/lab/02b/train.c"
}

@test "each lab has ten points, the capstone twenty" {
    for file in teach/lab/*.txt; do
        lab=$(basename "$file" .txt)
        [ "$lab" != hints ] || continue
        sum=$(awk -v lab="$lab" '$1 == lab { sum += $2 } END { print sum + 0 }' teach/class/points.txt)
        due=10
        [ "$lab" != capstone ] || due=20
        echo "$lab: $sum points"
        [ "$sum" -eq "$due" ]
    done
}

@test "a right program gets all points, the same for the same secret, in each format" {
    other_way
    grade
    [ "$(score)" = 10.0 ]
    python3 - "$BATS_TEST_TMPDIR/results.json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
# the fields of Gradescope's specification
top = {"score", "execution_time", "output", "output_format", "test_output_format", "test_name_format", "visibility",
       "stdout_visibility", "extra_data", "tests", "leaderboard"}
test = {"score", "max_score", "status", "name", "name_format", "number", "output", "output_format", "tags", "visibility", "extra_data"}
assert set(result) <= top, result.keys()
for entry in result["tests"]:
    assert set(entry) <= test and entry["status"] in ("passed", "failed") and 0 <= entry["score"] <= entry["max_score"], entry
assert result["visibility"] == "visible" and result["stdout_visibility"] == "hidden" and isinstance(result["execution_time"], int)
assert sum(entry["score"] for entry in result["tests"]) == result["score"] == 10
END
}

@test "a program without the mean gets the points of what it does, and the words of the judge" {
    other_way
    sed -i 's/REDUCE_MEAN/REDUCE_SUM/' "$handed/lab/02b/train.c"
    timeout 500 teach/class/grade "$handed" --labs 02b --format junit --output "$BATS_TEST_TMPDIR/grade.xml"
    python3 - "$BATS_TEST_TMPDIR/grade.xml" <<'END'
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot()[0]
failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
assert suite.get("failures") == str(len(failed)) and 0 < len(failed) < int(suite.get("tests")), failed
assert any(name.startswith("losses, gradients and weights") for name in failed), failed
assert "times as large as their mean" in suite.find("system-out").text
END
}

@test "the program before the step gets none" {
    sed 's/^int main/\n&/' 02_multi_gpu_spawn/train_a_spawn.c >"$handed/lab/02b/train.c"
    grade
    [ "$(score)" = 0 ]
}

@test "our solution is refused, and --own grades it" {
    cp 02_multi_gpu_spawn/train_b_all_reduce.c "$handed/lab/02b/train.c"
    grade
    [ "$(score)" = 0 ]
    grep -q 'hand in your own work' "$BATS_TEST_TMPDIR/results.json"
    grade --own
    [ "$(score)" = 10.0 ]
}

@test "the capstone's programs see the images, which are drawn, too" {
    mkdir -p "$handed/lab/capstone"
    cp docs/answers/capstone.c "$handed/lab/capstone"
    run timeout 500 teach/class/grade "$handed" --labs capstone --own
    echo "$output"
    [[ $output == *"yes  rung 1: "*"Next is "*"all: 5 of 20 points"* ]]
}

@test "what is missing, unknown, or no submission is said in a line" {
    run teach/class/grade "$handed" --labs "02b 99"
    [ "$status" -eq 2 ]
    [[ $output == *"there is no lab 99"* ]]
    run teach/class/grade "$BATS_TEST_TMPDIR/nothing"
    [ "$status" -eq 2 ]
    rm -r "$handed/lab/02b"
    grade=$PWD/teach/class/grade
    run sh -c 'cd "$1" && "$2" handed --labs 02b' - "$BATS_TEST_TMPDIR" "$grade" # from another folder
    [ "$status" -eq 0 ]
    [[ $output == *"there is no 02b/train.c"*"all: 0 of 10 points"* ]]
}

@test "ways to fool it get no points and do no harm" {
    # shellcheck disable=SC2046 # a fifth of them in a sample
    tests/class/try_cheats.py ${SAMPLE:+--sample "${SEED:-1}"}
}

@test "without namespaces another user is the fence" {
    [ "$(id -u)" -eq 0 ] || skip "only root can become another user"
    other_way
    mode=$(stat -c %a .)
    chmod 700 . 
    run setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin teach/class/grade "$handed" --labs 02b
    chmod "$mode" .
    echo "$output"
    [[ $output == *"all: 10 of 10 points"*"another user was the whole fence"* ]]
    chmod 755 .
    run setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin teach/class/grade "$handed" --labs 02b
    chmod "$mode" .
    [[ $output == *"other users can read "*"chmod 700"* || $(stat -c %a ..) == *0 ]]
}
