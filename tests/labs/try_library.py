#!/usr/bin/env python3
"""Usage: tests/labs/try_library.py [LAB | LAB:EXPECTED | --few]...
Does make check-lab know right from wrong in the library labs? Makes each file of library.txt from our answer, all or
these, and asks teach/lab/library.py about it: of a wrong one it must give the hint that is expected, of a right one
nothing. Only the answer is tried with numbers that are drawn anew, too. --few: the first two wrong ones of each lab, which end early."""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from rows import TOP, chosen, rows_of, try_rows


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
        done = subprocess.run([sys.executable, "teach/lab/library.py", lab, file, runs], cwd=TOP, capture_output=True, text=True,
                              env=os.environ if edit == "p;d" else {**os.environ, "LAB_SALT": "1"})
    return done.stdout + done.stderr, {0: True, 1: False}.get(done.returncode)


def main():
    rows = chosen(rows_of("library.txt"), [word for word in sys.argv[1:] if word != "--few"])
    if "--few" in sys.argv:
        labs = dict.fromkeys(row[0] for row in rows)
        rows = [row for lab in labs for row in [row for row in rows if row[0] == lab][:2]]
    rows.sort(key=lambda row: row[1] != "right")  # the first, judged alone, makes the runs of ours that right ones share
    # Of lab-store's files most are waited for. Those of several labs share no first one.
    sys.exit(try_rows(rows, judge, "files", at_once=4 if {row[0] for row in rows} == {"store"} else 1))


if __name__ == "__main__":
    main()
