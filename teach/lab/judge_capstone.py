#!/usr/bin/env python3
"""Usage: teach/lab/judge_capstone.py FILE FOLDER [STEP]     FILE is lab/capstone/capstone.c; beside it are 01.c to 05.c
       teach/lab/judge_capstone.py --data DIR             writes the images
Judges the capstone rung by rung: the data set and the model, then the program of each step, compared with ours
(docs/answers/capstone.c, and capstone.sed for the steps' programs). STEP: this program alone, 01 to 05, for the tests,
which know those before it. Exit status 1: there is a fault.
LAB_OURS=FOLDER keeps the runs of our programs and the images there, for the next time."""
import os
import random
import re
import struct
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(os.path.abspath(__file__)).parents[2]
os.chdir(TOP)

import checks
import judge
import library
import orphans
import runs
import witness

ROWS, TEST_ROWS, SIDE = 2000, 211, 28
SEED_OF_IMAGES = 1
SHARES = (4, 3, 2, 2, 4, 2, 2, 3, 2, 2)  # how often each class comes
PROBLEM = ["--model", "mlp", "--dataset", "mnist"]  # the names under which the programs know the learner's
STEPS = ("01", "02", "03", "04", "05")


def stroke(image, dice):
    """Draws a line of two pixels' width between two places."""
    ends = [(dice.uniform(5, 23), dice.uniform(5, 23)) for _ in range(2)]
    for part in range(41):
        y, x = (a + (b - a) * part / 40 for a, b in zip(*ends))
        for place in ((int(y), int(x)), (int(y) + 1, int(x)), (int(y), int(x) + 1)):
            image[place[0]][place[1]] = 220


def make_data(folder):
    """Four files like MNIST's, as KMNIST's are: each class is a character of four strokes, moved about, with noise."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(SEED_OF_IMAGES)
    characters = [[[0] * SIDE for _ in range(SIDE)] for _ in SHARES]
    for character in characters:
        for _ in range(4):
            stroke(character, dice)
    for name, count in ("train", ROWS), ("t10k", TEST_ROWS):
        labels = dice.choices(range(len(SHARES)), SHARES, k=count)
        images = bytearray()
        for label in labels:
            down, right = dice.randrange(-5, 6), dice.randrange(-5, 6)
            noise = dice.randbytes(SIDE * SIDE)
            for y in range(SIDE):
                line = characters[label][(y - down) % SIDE]
                line = line[-right:] + line[:-right]
                images += bytes(max(pixel - value // 2, value // 4) for pixel, value in zip(line, noise[y * SIDE:]))
        (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + bytes(labels))


class Judge(judge.Judge):
    """Of the program of one step. The first step is judged as a rank that is alone in 02a."""

    def hint(self, name):
        for line in library.text_of("capstone"):
            if line.startswith(f"hint {name}: "):
                return line.split(": ", 1)[1]
        return super().hint(name)

    def run_theirs(self, name, *options, **more):
        return super().run_theirs(f"{self.step}_{name}", *options, **more)

    def judge(self):
        options = ["--epochs", "3"] + (["--save-every-steps", "5"] if self.step == "05" else [])
        ours, theirs = self.run_ours("capstone", *options), self.run_theirs("theirs", *options).wait()
        if not ours.journals:
            sys.exit("cannot judge: a build without extras/ keeps no journals: make EXTRAS=1")
        self.complete = checks.complete(theirs)
        compared = [checks.check_end, checks.check_device, checks.check_rows, checks.check_steps, checks.check_values,
                    checks.check_evaluation, checks.check_saves, checks.check_output]
        if self.step != "01":
            compared.insert(2, checks.check_group)
        if self.step in judge.NODES:
            compared.insert(0, checks.check_disks)  # without the data, ranks fail in many ways
        for check in compared:
            self.check(check.__doc__, check("02a" if self.step == "01" else self.step, ours, theirs))
            if self.mistakes:
                return
        more = {"02": [self.check_killed], "05": [self.check_stopped, self.check_watched]}
        for check in more.get(self.step, []) if self.complete else []:
            self.check(check.__doc__, check())


def build(folder, name):
    """Links folder/NAME with folder/capstone.c. NAME's source is there, too, or it is our program that shows."""
    program = folder / name
    source = "teach/lab/capstone/show" if name == "show" else program
    library.make(program, f"MINE={folder / 'capstone.c'}", f"TRIED={program}", f"OF={source}")
    return program


def answer(name):
    """Our file of that name: capstone, or 01 to 05."""
    if name == "capstone":
        return Path("docs/answers/capstone.c").read_text()
    given = Path(f"docs/answers/capstone_{name}.c")  # compiled, in a students' tree (teach/class)
    if given.exists():
        return given.read_text()
    return subprocess.check_output(["sed", "-f", "docs/answers/capstone.sed", next(Path().glob(f"{name}_*/train.c"))], text=True)


def ours_of(name):
    """Our program, built in build/ours/capstone; a folder of that name says which lab it is."""
    folder = Path("build/ours/capstone")
    folder.mkdir(parents=True, exist_ok=True)
    for stem in ("capstone", name) if name != "show" else ("capstone",):
        source, text = folder / f"{stem}.c", answer(stem)
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
    return build(folder, name)


def lines_of(program, data):
    """What show.c prints: {name: [(the whole line, its numbers)]}"""
    command = [program, *PROBLEM, "--data-dir", data, "--num-samples", "203", "--threads", "1", "--device", "cpu"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=runs.SECONDS)
    if done.returncode != 0:
        output = (done.stderr.splitlines() or [f"it ends with status {done.returncode}"])[-1]
        raise library.Fault("start" if "not written yet" in output else "crash", output)
    lines = {}
    for line in done.stdout.splitlines():
        numbers = [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?|-?nan|-?inf", line)]
        lines.setdefault(line.split()[0], []).append((line, numbers))
    return lines


def check_problem(folder, data):
    """Compares what the learner's data set and model do with what ours do, line by line."""
    try:
        due = lines_of(ours_of("show"), data)
    except (library.Fault, subprocess.TimeoutExpired) as reason:
        raise witness.OursFails(reason) from None
    mine = lines_of(build(folder, "show"), data)
    for name, lines in due.items():
        got = mine.get(name, [])
        for (line, numbers), (other, others) in zip(lines, got):
            names = [re.sub(r"-?[\d.]+(?:e[-+]\d+)?", "#", text) for text in (line, other)]
            if names[0] != names[1] or len(numbers) != len(others) or not all(map(checks.near, numbers, others)):
                raise library.Fault(name.removesuffix("_short"), f"{short(other)}; ours has {short(line)}")
        if len(got) != len(lines):
            raise library.Fault(name, f"it has {len(got)} lines of {name}, ours {len(lines)}")


def short(line):
    return line if len(line) < 80 else line[:76] + " ..."


def judge_capstone(file, folder, alone=None):
    mine = file.parent
    checks.TEST_ROWS, runs.make_data = TEST_ROWS, make_data
    runs.OPTIONS[:2] = PROBLEM
    data, kept = folder / "data", Path(os.environ.get("LAB_OURS") or folder) / "data"
    if not data.exists() and not kept.exists():
        make_data(kept)
    if not data.exists():
        data.symlink_to(kept.resolve())
    rungs, done = library.rungs_of("capstone"), 0
    try:
        if not alone:
            check_problem(mine, data)
            witness.passed(f"rung 1: {rungs[0]}")
        for done, (step, title) in enumerate(zip(STEPS, rungs[1:]), 1):
            if alone and step != alone:
                continue
            source = mine / f"{step}.c"
            if not source.exists():
                print(f"     {done} of {len(rungs)} rungs are done. Next is {source}: {title}")
                return 1
            print(f"     rung {done + 1} runs your {step}.c and ours", flush=True)
            judged = Judge(step, build(mine, step), ours_of(step), folder)
            judged.judge()
            if judged.mistakes:
                print(f"     {done} of {len(rungs)} rungs are done")
                return 1
            witness.passed(f"rung {done + 1}: {title}")
    except library.Fault as found:
        name, text = found.args
        hint = library.hint_of("capstone", name)
        witness.failed(text, 6 if name == "build" else 1)
        print(f"     hint{f' ({name})' if os.environ.get('LAB_NAMES') else ''}: {hint}")
        print(f"     {done} of {len(rungs)} rungs are done")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    if sys.argv[1] == "--data":
        make_data(sys.argv[2])
    else:
        orphans.end_with_judge(sys.argv[2])
        sys.exit(judge_capstone(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
