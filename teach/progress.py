#!/usr/bin/env python3
"""Usage: teach/progress.py              (make progress: chapters, labs, quizzes and traps: done, begun, open)
       teach/progress.py reset STEP   (make reset-02c: begins lab 02c anew; also trap-03, quiz-02)
A chapter is done when its quiz and its labs are. What you wrote before a reset is kept in lab/aside/."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(os.path.abspath(__file__)).parents[1]
os.chdir(TOP)

import quiz
import trap

LAB = Path(os.environ.get("LAB", "lab"))
TOGETHER = {frozenset(["done"]): "done", frozenset(["open"]): "open"} # else: begun


def library_labs():
    """The labs of a folder each, which end in a file that the programs use: ring ..."""
    return sorted(path.name for path in Path("teach/lab").iterdir() if Path(f"teach/lab/{path.name}.txt").exists())


def steps():
    """The steps in the order of the program: 02a before 02."""
    return re.findall(r"^(\w+): ", subprocess.check_output(["tools/stepdiff.sh", "--pairs"], text=True), re.M)


def chapter_of(step):
    """The key of a lab's chapter: its text names it, or it is a step's: 02 of 02a."""
    named = re.search(r"^chapter (\w+)$", Path(f"teach/lab/{step}.txt").read_text(), re.M)
    return named[1] if named else step[:2]


def lab_state(step):
    """Done: judged, and not changed since."""
    done, files = LAB / step / "done", list((LAB / step).glob("*.c"))
    changed = max((path.stat().st_mtime for path in files), default=0)
    return "done" if done.exists() and done.stat().st_mtime >= changed else "begun" if files else "open"


def quiz_state(questions):
    answered, right = len(questions.answered()), questions.num_right()
    return "done" if right == len(questions.questions) else "begun" if answered else "open"


def touched(name):
    """When the reader worked on a lab or a quiz last; 0: never."""
    folder = LAB / name.replace("quiz-", "quiz_").removeprefix("lab-")
    return max((path.stat().st_mtime for path in folder.glob("*")), default=0)


def show():
    """Prints the table, and what to do next: the first quiz or lab that is not done, from the reader's chapter on, or the first trap."""
    labs = [step for step in steps() if Path(f"teach/lab/{step}.txt").exists()] + library_labs()
    todo, latest = [], []  # of each chapter
    print(f"{'chapter':24} {'state':6} {'quiz':12} labs")
    for key, title in quiz.chapters():
        questions = quiz.Quiz(key)
        states = {f"quiz-{key}": quiz_state(questions)}
        states.update({f"lab-{step}": lab_state(step) for step in labs if chapter_of(step) == key})
        together = TOGETHER.get(frozenset(states.values()), "begun")
        todo.append([f"make {name}" for name, state in states.items() if state != "done"])
        latest.append(max(touched(name) for name in states))
        count = f"{questions.num_right()} of {len(questions.questions)}"
        of_labs = ", ".join(f"{name[4:]} {state}" for name, state in states.items() if name.startswith("lab-"))
        print(f"{title:24} {together:6} {count:12} {of_labs}".rstrip())
    found = trap.states()
    print("\ntraps")
    for state in ("solved", "begun", "open"):
        print(f"  {state:7} {' '.join(name for name, has in found.items() if has == state) or 'none'}")
    written = [step for step in labs if lab_state(step) == "done"]
    if written:
        trained = " make mine trains with it." if set(written) & set(library_labs()) else ""
        print(f"\nYou wrote {' and '.join(filter(None, [', '.join(written[:-1]), written[-1]]))} of ddp.c.{trained}")
    here = latest.index(max(latest))
    due = sum(todo[here:] + todo[:here], []) + [f"make trap-{name}" for name, state in found.items() if state == "open"]
    print(f"\nNext: {due[0]}" if due else "\nAll of it is done.")


def reset(name):
    """Moves the files of a lab, a trap or a quiz to lab/aside/, and begins it anew."""
    kind, _, rest = name.partition("-")
    begin = {"trap": ["teach/trap.py", rest], "quiz": None}.get(kind, ["teach/lab.sh", name])
    known = {*(f"trap-{name}" for name in trap.names()), *(f"quiz-{chapter}" for chapter in quiz.names()),
             *(step for step in steps() if Path(f"teach/lab/{step}.txt").exists()), *library_labs()}
    if name not in known:
        print(f"teach/progress.py: '{name}' is none of {' '.join(sorted(known))}", file=sys.stderr)
        sys.exit(2)
    folder = LAB / name.replace("-", "_", 1)
    if folder.exists():
        number = 1
        while (LAB / f"aside/{folder.name}_{number}").exists():
            number += 1
        aside = LAB / f"aside/{folder.name}_{number}"
        aside.parent.mkdir(exist_ok=True)
        folder.rename(aside)
        print(f"What you wrote is kept in {aside}", flush=True)
    sys.exit(subprocess.run(begin).returncode if begin else 0)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in: make progress | head
    if sys.argv[1:] == []:
        show()
    elif len(sys.argv) == 3 and sys.argv[1] == "reset":
        reset(sys.argv[2])
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
