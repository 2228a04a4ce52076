#!/usr/bin/env python3
"""Usage: tests/class/try_points.py [--sample SEED | --each N] [LAB | LAB:EXPECTED]...      (after make grader)
Do wrong programs get the points that docs/teach/class.md promises? Grades the programs of tests/labs (programs.txt, library.txt,
capstone.txt, zero.bats), all or these, and works out from the mistake that a row names which check must fail, so which points
it may get: never all. --each: that many wrong ones of each lab. --sample: three of them, of different labs."""
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
from handed import TOP, hand_in, ours, submission

import report

RUNGS = ("capstone", "01", "02", "03", "04", "05")  # the capstone's files, in the order of its rungs


def rows():
    """[(lab, mistake, sed's edit, the file that it edits)]"""
    found = []
    for name in "programs.txt", "library.txt", "capstone.txt":
        for line in (TOP / "tests/labs" / name).read_text().splitlines():
            if line and not line.startswith("#"):
                lab, mistake, edit = line.split(maxsplit=2)
                lab, file = ("capstone", f"{lab}.c") if name == "capstone.txt" else (lab, submission.files_of(lab)[0])
                found.append((lab, mistake, edit, file))
    for lab, mistake, edit in re.findall(r"^    wrong (\w+) (\w+) '(.*)'$", (TOP / "tests/labs/zero.bats").read_text(), re.M):
        found.append((lab, mistake, edit, "train.c"))
    return [row for row in found if row[1] != "right"]


def checks_of_mistakes():
    """{mistake: {titles of the checks that name it}}, of the steps' labs, read from the judge's own source."""
    functions = {}
    for name in "checks.py", "judge.py":
        for node in ast.walk(ast.parse((TOP / "teach/lab" / name).read_text())):
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = node

    def named(function, seen):
        """What it yields the name of, itself or by a function that it asks."""
        if function.name in seen:
            return set()
        seen.add(function.name)
        nodes = list(ast.walk(function))
        firsts = [node.value.elts[0] for node in nodes if isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple)]
        names = {part.id for first in firsts for part in ast.walk(first) if isinstance(part, ast.Name)}
        for node in nodes:  # name, text = "mistake", "what was seen"
            if isinstance(node, ast.Assign):
                pairs = [(node.targets[0], node.value)]
                if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(node.targets[0].elts, node.value.elts)
                firsts += [value for target, value in pairs if getattr(target, "id", "") in names]
            elif isinstance(node, ast.For):  # for names, name, text in (...)
                firsts += [node.iter] if any(getattr(part, "id", "") in names for part in ast.walk(node.target)) else []
        words = {part.value for first in firsts for part in ast.walk(first) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        called = {getattr(node.func, "id", getattr(node.func, "attr", "")) for node in nodes if isinstance(node, ast.Call)}
        return words.union(*(named(functions[name], seen) for name in called if re.match("faults_|check_", name) and name in functions))

    mistakes = {}
    for name, function in functions.items():
        if name.startswith("check_"):
            for word in named(function, set()):
                mistakes.setdefault(word, set()).add(ast.get_docstring(function))
    return mistakes


def due(lab, mistake, file, output, mistakes):
    """The checks that must be lost, and those that must be passed, as far as the mistakes tell."""
    table = report.points_of(lab)
    listed = [check for points, _, check in table if points]
    if lab == "capstone":  # the rung of the file, and all above
        rung = RUNGS.index(Path(file).stem)
        return listed[rung:], listed[:rung]
    if (TOP / "teach/lab" / lab).is_dir():  # a library's lab: the judge stops at the first fault
        done = re.search(r"^ +(\d+) of \d+ rungs are done", output, re.M)
        done = int(done[1]) if done else 0
        rungs = [check for check in listed if check.startswith("rung ")]
        return rungs[done:] + [check for check in listed if check not in rungs and done < len(rungs)], rungs[:done]
    if lab.startswith("zero"):  # the same
        check = {"held": "what a rank holds", "sent": "what a rank sends"}.get(mistake)
        return listed[listed.index(check):] if check in listed else listed, []
    names = {mistake, *re.findall(r"hint \((\w+)\)", output)}
    found = [[check for check in dict.fromkeys(listed) if any(title.startswith(check) for title in mistakes[name])] for name in names]
    lost = [checks[0] for checks in found if len(checks) == 1]  # else two checks know this mistake
    gates = [check for points, _, check in table if not points]
    if "may follow" in output or "The rest is judged" in output or any(check in gates for checks in found for check in checks):
        return lost, []
    after = ("a rank is killed", "told to stop", "--inject", "on data drawn")  # judged if the steps are counted, the last if all is right
    kept = [check for check in listed if not any(check in checks for checks in found) and not (check.startswith(after) and check not in output)]
    before = {check for _, starred, check in table if starred}  # the program before the step passes them, too
    return lost, kept if set(kept) - before else []


def grade(lab, edit, file):
    """Gradescope's results of the program that the edit makes, and what the judge said."""
    files = ours(lab)
    text = subprocess.run(["sed", edit], input=files[file], check=True, capture_output=True, text=True).stdout
    if text == files[file]:
        sys.exit(f"the edit changes nothing: {lab} {edit}")
    files = {name: text if name == file else body for name, body in files.items()
             if lab != "capstone" or RUNGS.index(Path(name).stem) <= max(RUNGS.index(Path(file).stem), 0)}
    with tempfile.TemporaryDirectory() as folder:
        hand_in(folder, lab, files)
        done = subprocess.run(["teach/class/grade", folder, "--labs", lab, "--own", "--seed", os.environ.get("SEED", "1"), "--format", "gradescope"],
                              cwd=TOP, capture_output=True, text=True, env={**os.environ, "LAB_NAMES": "1", "LAB_SECONDS": os.environ.get("LAB_SECONDS", "60")})
    try:
        return json.loads(done.stdout)["tests"], done.stderr
    except ValueError:
        sys.exit(f"no grade for {lab} {edit}: {done.stdout}{done.stderr}")


def faults(lab, mistake, file, tests, mistakes):
    """What is not as the page promises."""
    output = tests[0]["output"]
    passed = {re.sub(r"^(rung \d): .*", r"\1", test["name"].removeprefix(f"{lab}: ")): test["score"] for test in tests}
    lost, kept = due(lab, mistake, file, output, mistakes)
    if f"hint ({mistake}): " not in output and not lab.startswith("zero"):  # these judges name none
        yield f"the judge does not name {mistake}"
    if sum(test["score"] for test in tests) >= sum(test["max_score"] for test in tests):
        yield "it gets all points"
    for check in lost:
        if passed[check]:
            yield f"it gets points for: {check}"
    for check in kept:
        if not passed[check]:
            yield f"it gets no points for: {check}"


def main():
    words, chosen = sys.argv[1:], rows()
    if words[:1] == ["--sample"]:
        dice = random.Random(words[1])
        quick = [row for row in chosen if row[0] not in ("capstone", "store", "snapshot") and not row[0].startswith("zero")]
        chosen, words = [dice.choice([row for row in quick if row[0] == lab]) for lab in dice.sample(sorted({row[0] for row in quick}), 3)], []
    elif words[:1] == ["--each"]:
        dice, count, words = random.Random(os.environ.get("SEED", "1")), int(words[1]), words[2:]
        shuffled = dice.sample(chosen, len(chosen))
        chosen = [row for lab in dict.fromkeys(row[0] for row in chosen) for row in [row for row in shuffled if row[0] == lab][:count]]
    chosen = [row for row in chosen if not words or row[0] in words or f"{row[0]}:{row[1]}" in words]
    mistakes, failed = checks_of_mistakes(), 0
    for lab, mistake, edit, file in chosen:
        begin = time.monotonic()
        tests, err = grade(lab, edit, file)
        wrong = list(faults(lab, mistake, file, tests, mistakes))
        got = sum(test["score"] for test in tests)
        print(f"{'WRONG' if wrong else 'ok'}  {lab} {mistake}: {got:g} points ({time.monotonic() - begin:.1f} s)  {'; '.join(wrong)}", flush=True)
        if wrong:
            print(edit, tests[0]["output"], err, sep="\n", flush=True)
        failed += bool(wrong)
    print(f"{len(chosen)} wrong programs, {failed} with other points than promised")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
