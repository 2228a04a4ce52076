#!/usr/bin/env python3
"""Usage: tests/labs/try_capstone.py [FILE | FILE:EXPECTED]...
Does make check-lab know right from wrong in the capstone? Makes each file of capstone.txt from our answer, all or these,
puts our files of the rungs before it beside it, and asks teach/lab/judge_capstone.py: of a wrong one it must give the hint that
is expected, of a right one nothing but what is next. Those of 05.c climb all rungs, those of 01.c to 04.c stand on theirs alone."""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from rows import TOP, chosen, rows_of, try_rows

sys.path.insert(0, str(TOP / "teach/lab"))
from judge_capstone import answer

FILES = ("capstone", "01", "02", "03", "04", "05")


def judge(place, name, edit):
    """What is said of the file that the edit makes; and whether it is accepted."""
    text = subprocess.run(["sed", edit], input=answer(name), check=True, capture_output=True, text=True).stdout
    if text == answer(name):
        return "the edit changes nothing", None
    mine = place / "capstone"
    mine.mkdir(exist_ok=True)
    (mine / "../config.yaml").exists() or (place / "config.yaml").symlink_to(TOP / "config.yaml")
    for file in FILES:
        path = mine / f"{file}.c"
        due = text if file == name else answer(file) if file < name or file == "capstone" else None
        if due is None or name == "capstone" != file:
            path.unlink(missing_ok=True)
        elif not path.exists() or path.read_text() != due:
            path.write_text(due)
    alone = [] if name in ("capstone", "05") else [name]
    with tempfile.TemporaryDirectory() as runs:
        done = subprocess.run([sys.executable, "teach/lab/judge_capstone.py", mine / "capstone.c", runs, *alone], cwd=TOP,
                              capture_output=True, text=True)
    right = done.returncode == 0 or "rungs are done. Next is " in done.stdout
    return done.stdout + done.stderr, {0: True, 1: right}.get(done.returncode)


def main():
    with tempfile.TemporaryDirectory(dir=TOP / "build") as name:
        place = Path(name).relative_to(TOP)  # make builds what lies within the tree
        sys.exit(try_rows(chosen(rows_of("capstone.txt"), sys.argv[1:]), lambda _, file, edit: judge(place, file, edit), "files"))


if __name__ == "__main__":
    main()
