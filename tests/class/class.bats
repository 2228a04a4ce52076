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

@test "a right program gets all points, the same for the same secret, in each format" {
    other_way
    grade
    [ "$(score)" = 10.0 ]
    python3 - "$BATS_TEST_TMPDIR/results.json" <<'END'
import json, sys
sys.path.insert(0, "tests/class")
sys.dont_write_bytecode = True
import try_autograder
result = json.load(open(sys.argv[1]))
try_autograder.check_results(result)
assert result["visibility"] == "visible" and result["stdout_visibility"] == "hidden" and result["score"] == 10
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

@test "our solution is refused" {
    cp 02_multi_gpu_spawn/train_b_all_reduce.c "$handed/lab/02b/train.c"
    grade
    [ "$(score)" = 0 ]
    grep -q 'hand in your own work' "$BATS_TEST_TMPDIR/results.json"
}

# What the two platforms read: instructure/canvas-lms, lib/gradebook_importer.rb (header?, process_pp, process_student), and
# moodle/moodle, grade/import/grade_import_form.php, which maps a column to username and the others to grade items.
@test "a class is a table that Canvas and Moodle read, with an empty cell where nothing was graded" {
    other_way
    mkdir -p "$BATS_TEST_TMPDIR/=bo"
    mv "$handed/lab" "$BATS_TEST_TMPDIR/=bo/lab"
    mkdir -p "$BATS_TEST_TMPDIR/ana/lab"
    run timeout 500 teach/class/grade --labs 02b --csv canvas --output "$BATS_TEST_TMPDIR/canvas.csv" "$BATS_TEST_TMPDIR"/{ana,=bo}/lab
    echo "$output"
    [ "$status" -eq 0 ]
    diff "$BATS_TEST_TMPDIR/canvas.csv" - <<'END'
Student,ID,SIS User ID,SIS Login ID,Section,lab-02b
Points Possible,,,,,10
ana,,,ana,,0
_bo,,,_bo,,10
END
    python3 -B - <<'END'
import sys
sys.path.insert(0, "teach/class")
import report
rows = [("ana", {"02b": 4.5, "ring": 10}), ("bo, jr.", {})]
assert report.table("moodle", ["02b", "ring"], rows) == 'Username,lab-02b,lab-ring\nana,4.5,10\n"bo, jr.",,\n'
assert report.table("plain", ["02b", "ring"], rows).split() == ["name,lab,points,of", "ana,lab-02b,4.5,10", "ana,lab-ring,10,10",
                                                              '"bo,', 'jr.",lab-02b,,10', '"bo,', 'jr.",lab-ring,,10']
END
    run teach/class/grade --labs 02b --csv plain "$BATS_TEST_TMPDIR"/ana/lab "$BATS_TEST_TMPDIR/ana"
    [[ $status -eq 1 && $output == *"two submissions are ana's"* ]]
    run teach/class/grade --labs 02b "$BATS_TEST_TMPDIR"/ana/lab "$BATS_TEST_TMPDIR/=bo/lab"
    [[ $status -eq 2 && $output == *"several submissions make a table"* ]]
}

# bats test_tags=slow
@test "--own grades our solution" {
    cp 02_multi_gpu_spawn/train_b_all_reduce.c "$handed/lab/02b/train.c"
    grade --own
    [ "$(score)" = 10.0 ]
}

# bats test_tags=slow
@test "the capstone's programs see the images, which are drawn, too" {
    mkdir -p "$handed/lab/capstone"
    cp docs/answers/capstone.c "$handed/lab/capstone"
    run timeout 500 teach/class/grade "$handed" --labs capstone --own
    echo "$output"
    [[ $output == *"yes  rung 1: "*"Next is "*"all: 5 of 20 points"* ]]
}

@test "a lab's file is found where platforms put it, and nowhere else" {
    python3 - "$BATS_TEST_TMPDIR" <<'END'
import sys, zipfile
from pathlib import Path
sys.path.insert(0, "teach/class")
sys.dont_write_bytecode = True
import submission

def read(labs, *names):
    """What is found in a folder with these files, and in a zip of it, which must be the same; each file holds its name."""
    read.count += 1
    top = Path(sys.argv[1]) / str(read.count)
    for name in names:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    with zipfile.ZipFile(f"{top}.zip", "w") as archive:
        for name in names:
            archive.write(top / name, name)
    said = []
    for place in str(top), f"{top}.zip":
        try:
            said.append({lab: {name: text.decode() for name, text in files.items()} for lab, files in submission.read(place, labs.split()).items()})
        except submission.Refused as refusal:
            said.append(str(refusal))
    assert said[0] == said[1], said
    return said[0]
read.count = 0

def spelled(labs, *names):
    """What is found in a zip with these names, as they are; each file holds its name."""
    with zipfile.ZipFile(Path(sys.argv[1]) / "spelled.zip", "w") as archive:
        for name in names:
            info = zipfile.ZipInfo("x")
            info.filename = name
            archive.writestr(info, name)
    try:
        found = submission.read(str(Path(sys.argv[1]) / "spelled.zip"), labs.split())
    except submission.Refused as refusal:
        return str(refusal)
    return {lab: {name: text.decode() for name, text in files.items()} for lab, files in found.items()}

assert read("02b ring", "lab/02b/train.c", "lab/ring/ring.c") == {"02b": {"train.c": "lab/02b/train.c"}, "ring": {"ring.c": "lab/ring/ring.c"}}
assert read("02b", "02b/train.c", "old/02b/train.c") == {"02b": {"train.c": "02b/train.c"}}
assert read("02b", "a/b/lab/02b/train.c", "a/02b/other.c") == {"02b": {"train.c": "a/b/lab/02b/train.c"}}
assert "is it a/b/c/d/02b/train.c" in spelled("02b", "a/b/c/d/02b/train.c")
assert "2 times" in read("02b", "a/02b/train.c", "b/02b/train.c")
assert read("02b ring", "train.c") == {"02b": {"train.c": "train.c"}}
assert "is it train.c" in read("02b 02c", "train.c", "ring.c")
# Names that tools and hands have changed.
for name in r"lab\02b\train.c", "/lab/02b/train.c", "./lab//02b/train.c", "lab/02b/Train.c", "Lab/02B/TRAIN.C", "lab/02b/train (1).c", \
        "lab/02b/train(2).c", "02b/train - Copy.c", r"x\lab\02b\train (1).c", "02b/train.c.txt", "Train.c":
    found = spelled("02b", name)
    assert found == {"02b": {"train.c": name}}, (name, found)
assert spelled("02b", "lab/02b/train.c", "lab/02b/train (1).c") == {"02b": {"train.c": "lab/02b/train.c"}}
assert "may be" in spelled("02b", "lab/02b/Train.c", "lab/02b/train (1).c")
assert "is it lab/02b/trian.c" in spelled("02b", "lab/02b/trian.c")
assert "is it old/a/b/c/d/train.c" in spelled("02b", "old/a/b/c/d/train.c")
assert spelled("02b ring", "lab/02a/train.c", "lab/ring/ring.c") == {"ring": {"ring.c": "lab/ring/ring.c"}}
assert spelled("02b", "__MACOSX/lab/02b/train.c", "__MACOSX/lab/02b/._train.c", "lab/02b/notes.txt") == {}
assert read("capstone", "capstone.c", "01.c") == {"capstone": {"capstone.c": "capstone.c", "01.c": "01.c"}}
END
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

@test "a file of nearly the right name is named, with another status than a wrong program's" {
    mv "$handed/lab/02b" "$handed/lab/b"
    echo 'int main(void) { return 0; }' >"$handed/lab/b/tran.c"
    run grade
    echo "$output"
    [ "$status" -eq 3 ]
    [[ $output == *"grade: 02b: there is no 02b/train.c; is it lab/b/tran.c? Name it 02b/train.c and hand it in again"* ]]
    grep -q 'is it lab/b/tran.c' "$BATS_TEST_TMPDIR/results.json"
}

@test "what a submission prints is no verdict: an empty ring that forges them gets nothing" {
    tests/class/try_cheats.py forged_lines
}

@test "256 KB of source are looked at in less than a second, whatever they are" {
    timeout 120 python3 - <<'END'
import sys, time
sys.path.insert(0, "teach/class")
sys.dont_write_bytecode = True
import submission

ours = "ours", open("02_multi_gpu_spawn/train_b_all_reduce.c").read()
for part in ("/*", '"', "'a", "\\ ", "1e", "#", " ", "# ", "#include ", "//", "/*\n*/", "'\\", '"\\\n', "..", "%:", "\\\v", "(", "int a;\n", "a", "\n"):
    text = (part * submission.MOST_SOURCE)[:submission.MOST_SOURCE]
    begin = time.process_time()
    try:
        submission.refuse("02b", "train.c", text.encode(), ours)
    except submission.Refused:
        pass
    seconds = time.process_time() - begin
    assert seconds < 1, (part, seconds)

for text in ('#/**/include "x.c"', '#\finclude "x.c"', 'as\\ \nm("x");', "%:include <x.c>", '#include"x.c"', '# include <a.h> "x"', "a%:%:b", '/*"*/asm("x");',
             '"\\"" asm', '#if 0\n"/*\n#endif\nasm("x"); //*/', '/*\n*/ # /* */ include "x.c"', '#inc\\\nlude "x.c"', '#define W "x.c"\n#include W'):
    try:
        submission.refuse("02b", "train.c", text.encode(), None)
    except submission.Refused:
        continue
    raise AssertionError(text)
for text in ('#include <stdio.h> // "x.c"', '#include "a/b.h" /* x */\nchar c = \'"\', *t = "/* asm */ // #";', "#pragma omp parallel\n# define X 1"):
    submission.refuse("02b", "train.c", text.encode(), None)
END
}

@test "wrong programs get the points that the page promises" {
    [ "${SLOW:-}" = all ] || few="--sample ${SEED:-1}" # all take an hour
    # shellcheck disable=SC2086 # two words
    timeout 7200 tests/class/try_points.py ${few:-}
}

@test "ways to fool it get no points and do no harm" {
    # shellcheck disable=SC2086 # two words
    tests/class/try_cheats.py ${SAMPLE:+--sample "${SEED:-1}"}
}

@test "where the fence does not work there is no grade, and not 0 points" {
    other_way
    mkdir "$BATS_TEST_TMPDIR/bin"
    cat >"$BATS_TEST_TMPDIR/bin/bwrap" <<END
#!/bin/sh
[ "\$1" != --ro-bind ] || exec $(command -v bwrap) "\$@" # is it there?
echo 'bwrap: Unknown option --size' >&2 # as that of Ubuntu 22.04 would say
exit 1
END
    chmod +x "$BATS_TEST_TMPDIR/bin/bwrap"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run teach/class/grade "$handed" --labs 02b
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"nothing runs inside the fence: bwrap: Unknown option --size"*"this machine cannot grade, and no points are given" ]]
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
    [[ $status -eq 1 && $output == *"other users can read "*"chmod 700"*"no points are given"* || $(stat -c %a ..) == *0 ]]
}
