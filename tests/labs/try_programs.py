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
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
JUDGE = os.environ.get("LAB_JUDGE", "teach/lab/judge.py")  # the test of this test has a broken one


def programs():
    for line in (TOP / "tests/labs/programs.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split(maxsplit=2)


def ours():
    lines = subprocess.run(["tools/stepdiff.sh", "--count"], cwd=TOP, check=True, capture_output=True, text=True).stdout
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
    arguments = sys.argv[1:]
    rows = list(programs())
    if arguments[:1] == ["--sample"]:
        rows, arguments = sample(rows, arguments[1]), arguments[2:]
    rows = [row for row in rows if not arguments or row[0] in arguments or f"{row[0]}:{row[1]}" in arguments]
    source, failed = ours(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LAB_OURS"] = str(folder / "ours")
        os.environ["LAB_NAMES"] = "1"
        (folder / "config.yaml").symlink_to(TOP / "config.yaml")
        for lab, expected, edit in rows:
            begin = time.monotonic()
            said, accepted = judge(folder, lab, source[lab], edit)
            good = accepted is True if expected == "right" else accepted is False and f"hint ({expected}): " in said
            seconds = time.monotonic() - begin
            print(f"{'ok' if good else 'WRONG'}  {lab} {expected}  {edit}  ({seconds:.1f} s)", flush=True)
            if not good:
                print(said)
            failed += not good
    print(f"{len(rows)} programs, {failed} judged wrongly")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
