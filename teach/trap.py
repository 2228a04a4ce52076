#!/usr/bin/env python3
"""Usage: teach/trap.py NN         (make trap-NN: puts a broken program and its story into lab/trap_NN/)
       teach/trap.py check [NN]  (make check-trap: judges what you answer, and your fix)
       teach/trap.py hint [NN]   (make hint: the next of three hints)
       teach/trap.py list        all traps: solved, begun or open
Without NN: the trap on which you worked last. A trap is a file teach/traps/NN.txt; a line is a word and its text:
    base     the program that is right: a stage, as in make diff-02c, or a script; with: sed's commands for it (if any)
    edit     sed's commands that break it; right, wrong: other fixes of the broken program that are accepted, or not
    run      the command that shows the symptom, in which $program is the program
    symptom  a regular expression that its output matches, and the right program's output does not
    story, rank, line (a regular expression), cause (NAME: what it is), hint; also: one more check of the judge
    compare  the checks of lab/checks.py that a fix must pass; none: all; twin ...: see trap_twin.py"""
import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(os.path.abspath(__file__)).parents[1]
os.chdir(TOP)
sys.path.insert(0, str(TOP / "teach/lab"))

import checks
import trap_answer
from judge import Judge

LAB = Path(os.environ.get("LAB", "lab"))
DEFAULTS = {"compare": "end device group rows steps values evaluation saves work"}


def fail(text):
    print(f"teach/trap.py: {text}", file=sys.stderr)
    sys.exit(2)


def names():
    return sorted(path.stem for path in Path("teach/traps").glob("*.txt"))


@functools.cache
def programs():
    """The program of each step and stage."""
    pairs = subprocess.check_output(["tools/stepdiff.sh", "--pairs"], text=True)
    return dict(re.findall(r"^(\S+): \S+ (\S+)", pairs, re.M))


class Trap:
    def __init__(self, name):
        if name not in names():
            fail(f"'{name}' is none of {' '.join(names())}")
        self.name, self.folder = name, LAB / f"trap_{name}"
        self.lines = [line.split(" ", 1) for line in Path(f"teach/traps/{name}.txt").read_text().splitlines()]
        self.step = base = self.one("base")
        base = programs().get(base, base)
        self.step = "02" if base.startswith("beyond/") else self.step
        self.base, self.cause = Path(base), self.one("cause").partition(":")[0]
        self.file = "train.c" if base.endswith(".c") else self.base.name
        self.program = (self.folder / self.file).with_suffix("" if base.endswith(".c") else self.base.suffix)

    def all(self, word):
        return [text for key, text in self.lines if key == word]

    def one(self, word):
        return (self.all(word) or [DEFAULTS[word]])[0]

    def ours(self):
        return edited(self.base.read_text(), self.all("with"))

    def broken(self):
        return edited(self.ours(), self.all("edit"))

    def begin(self):
        if self.folder.exists():
            fail(f"{self.folder} is there already: go on with it (make check-trap), or begin anew (make reset-trap-{self.name})")
        self.write(self.folder, self.broken())
        (self.folder / "answer.txt").write_text(
            "".join(f"# {question}.\n{field}:\n\n" for field, question in trap_answer.FIELDS.items()) +
            "".join(f"#   {cause}\n" for cause in self.causes()))
        (self.folder / "run.sh").write_text(self.run_script())
        print("\n".join(self.all("story")), f"""

See it:      sh {self.folder}/run.sh [options of train]
Find it:     what shows it, which rank, which line, why? Answer in {self.folder}/answer.txt
Fix it:      {self.folder}/{self.file}
Right?       make check-trap        Stuck?       make hint""")

    def write(self, folder, text):
        folder.mkdir(parents=True, exist_ok=True)
        config = folder.parent / "config.yaml" # programs look for it above their folder
        if not config.exists():
            config.symlink_to(TOP / "config.yaml")
        (folder / self.file).write_text(text)
        (folder / self.file).chmod(self.base.stat().st_mode)

    def run_script(self):
        return f"""# Builds the program and runs it as in the story. Options are added: sh {self.folder}/run.sh --seed 1
cd {TOP} || exit
program={self.program} saved={self.folder}/saved
rm -rf $saved
{'make -s TRY=$program $program || exit' if self.file == "train.c" else ''}
{{ {" ".join(self.all("run"))}
}} 2>&1 | tee -a {self.folder}/output.txt
"""

    def build(self, program):
        done = subprocess.run(["make", "-s", f"TRY={program}", program], capture_output=True, text=True)
        return re.findall(r"train\.c:.*error:.*", done.stderr) + [""] if done.returncode else []

    @staticmethod
    def causes():
        return sorted({text for name in names() for text in Trap(name).all("cause")})

    def faults_of_answer(self):
        """Yields, for each field, how it is wrong, or None."""
        return trap_answer.faults(self, trap_answer.answer_of((self.folder / "answer.txt").read_text()))

    def faults_of_fix(self, folder):
        """The faults in the record of the learner's program that ours does not have."""
        if (self.folder / self.file).read_text() == self.broken():
            yield f"{self.folder}/{self.file} is as it was"
            return
        ours, program = self.base.with_suffix("") if self.file == "train.c" else self.base, self.program
        if self.file == "train.c":
            for line in self.build(str(program)):
                yield f"it does not compile: {line}"
                return
            if self.all("with"):
                ours = Path(os.environ.get("LAB_OURS") or folder) / f"trap_{self.name}_ours/train"  # built once for all fixes
                if not ours.exists():
                    self.write(ours.parent, self.ours())
                    self.build(str(ours))
        judge = Judge(self.step, str(program), str(ours), folder)
        print(f"     runs yours and ours: {judge.setting()}", flush=True)
        due, mine = judge.run_both(f"trap_{self.name}" if self.all("with") else "ours")
        for check in [getattr(checks, f"check_{name}") for name in self.one("compare").split()]:
            try:
                excused = {name for name, _ in check(self.step, due, due)} # faults of the base itself
                yield from (text for name, text in check(self.step, due, mine) if name not in excused)
            except (KeyError, IndexError, ValueError): # the program ended in the middle
                yield "it ends in the middle"
        for name in self.all("also") if checks.complete(mine) else []:
            yield from (text for _, text in getattr(judge, name)())

    def check(self):
        if not self.folder.exists():
            fail(f"trap {self.name} is not begun: make trap-{self.name}")
        answer = list(self.faults_of_answer())
        print(*(f"no   {fault}" if fault else f"yes  the {field}" for field, fault in answer), sep="\n")
        with tempfile.TemporaryDirectory() as folder:
            faults = list(self.faults_of_fix(Path(folder)))
        print("\n".join(f"no   {fault}" for fault in faults) or "yes  the fix: its ranks do what ours do")
        if solved := not faults and not any(fault for _, fault in answer):
            (self.folder / "solved").touch()
            (self.folder / f"ours_{self.file}").write_text(self.ours())
            print(f"Solved. Its answer is in docs/answers/traps.md; compare with ours: {self.folder}/ours_{self.file}")
        return 0 if solved else 1

    def hint(self):
        count = self.folder / ".hints"
        given = int(count.read_text()) if count.exists() else 0
        hints = self.all("hint")
        print(f"{min(given + 1, len(hints))} of {len(hints)}: {hints[min(given, len(hints) - 1)]}")
        count.write_text(str(given + 1))


def edited(text, commands):
    return subprocess.run(["sed", "\n".join(commands)], input=text, capture_output=True, text=True, check=True).stdout


def states():
    """The state of each trap: solved, begun or open."""
    return {name: "solved" if (LAB / f"trap_{name}/solved").exists() else "begun" if (LAB / f"trap_{name}").exists() else "open"
            for name in names()}


def latest():
    files = sorted(LAB.glob("trap_*/*"), key=lambda path: path.stat().st_mtime)
    return files[-1].parent.name[5:] if files else fail("nothing is begun: make trap-03")


def main():
    word, *rest = sys.argv[1:] or [""]
    if word == "list":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in: make trap | head
        print("\n".join(f"{name}  {state}" for name, state in states().items()))
    elif word in ("check", "hint"):
        sys.exit(getattr(Trap(rest[0] if rest else latest()), word)())
    elif word and not rest:
        Trap(f"0{word}" if f"0{word}" in names() else word).begin()  # trap-3 is trap-03
    else:
        fail(__doc__)


if __name__ == "__main__":
    main()
