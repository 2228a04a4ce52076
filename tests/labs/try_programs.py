#!/usr/bin/env python3
"""Usage: tests/labs/try_programs.py [--sample SEED] [LAB | LAB:EXPECTED]...
Does make check-lab know right from wrong? Makes each program of programs.txt from ours, all or these, and asks
teach/lab/judge.py about it: of a wrong one it must give the hint that is expected, of a right one nothing.
--sample: one wrong one of each lab, and one right one."""
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from rows import TOP, chosen, rows_of, try_rows

JUDGE = os.environ.get("LAB_JUDGE", "teach/lab/judge.py")  # the test of this test has a broken one


def ours():
    lines = subprocess.run(["tools/stepdiff.sh", "--pairs"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    return {line.split()[0].rstrip(":"): line.split()[2] for line in lines.splitlines()}


def sample(rows, seed):
    dice = random.Random(seed)
    chosen = [dice.choice([row for row in rows if row[0] == lab and row[1] != "right"])
              for lab in dict.fromkeys(row[0] for row in rows)]
    return chosen + [dice.choice([row for row in rows if row[1] == "right"])]


def judge(folder, lab, source, edit):
    """What is said of the program that the edit makes; and whether it is accepted."""
    program = folder / lab / "train"
    program.parent.mkdir(exist_ok=True)
    text = subprocess.run(["sed", edit, TOP / source], check=True, capture_output=True, text=True).stdout
    if text == (TOP / source).read_text():
        return "the edit changes nothing", None
    program.with_suffix(".c").write_text(text)
    make = subprocess.run(["make", "-s", f"TRY={program}", program], cwd=TOP, capture_output=True, text=True)
    if make.returncode != 0:
        return make.stderr, None
    with tempfile.TemporaryDirectory() as runs:
        done = subprocess.run([sys.executable, JUDGE, lab, program, source.removesuffix(".c"), runs], cwd=TOP,
                              capture_output=True, text=True)
    return done.stdout + done.stderr, {0: True, 1: False}.get(done.returncode)


def main():
    arguments, rows, source = sys.argv[1:], rows_of("programs.txt"), ours()
    if arguments[:1] == ["--sample"]:
        rows, arguments = sample(rows, arguments[1]), arguments[2:]
    sys.exit(try_rows(chosen(rows, arguments), lambda folder, lab, edit: judge(folder, lab, source[lab], edit), "programs"))


if __name__ == "__main__":
    main()
