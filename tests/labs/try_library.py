#!/usr/bin/env python3
"""Usage: tests/labs/try_library.py [LAB | LAB:EXPECTED | --few]...
Does make check-lab know right from wrong in the library labs? Makes each file of library.txt from our answer, all or
these, and asks teach/lab/library.py about it: of a wrong one it must give the hint that is expected, of a right one
nothing. --few: the first two wrong ones of each lab, which end early."""
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def programs():
    for line in (TOP / "tests/labs/library.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            yield line.split(maxsplit=2)


def judge(folder, lab, edit):
    """What is said of the file that the edit makes; and whether it is accepted."""
    answer = TOP / re.search(r"^answer (.*)$", (TOP / f"teach/lab/{lab}.txt").read_text(), re.M)[1]
    text = subprocess.run(["sed", edit, answer], check=True, capture_output=True, text=True).stdout
    if text == answer.read_text() and edit != "p;d":
        return "the edit changes nothing", None
    file = folder / lab / f"{lab}.c"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    with tempfile.TemporaryDirectory() as runs:
        done = subprocess.run([sys.executable, "teach/lab/library.py", lab, file, runs], cwd=TOP, capture_output=True, text=True)
    return done.stdout + done.stderr, {0: True, 1: False}.get(done.returncode)


def main():
    chosen = [name for name in sys.argv[1:] if name != "--few"]
    rows = [row for row in programs() if not chosen or row[0] in chosen or f"{row[0]}:{row[1]}" in chosen]
    if "--few" in sys.argv:
        labs = dict.fromkeys(row[0] for row in rows)
        rows = [row for lab in labs for row in [row for row in rows if row[0] == lab][:2]]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.update(LAB_OURS=str(folder / "ours"), LAB_NAMES="1")
        (folder / "config.yaml").symlink_to(TOP / "config.yaml")
        for lab, expected, edit in rows:
            begin = time.monotonic()
            said, accepted = judge(folder, lab, edit)
            good = accepted is True if expected == "right" else accepted is False and f"hint ({expected}): " in said
            print(f"{'ok' if good else 'WRONG'}  {lab} {expected}  {edit[:100]}  ({time.monotonic() - begin:.1f} s)", flush=True)
            if not good:
                print(said)
            failed += not good
    print(f"{len(rows)} files, {failed} judged wrongly")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
