#!/usr/bin/env python3
"""Usage: teach/class/student_tree.py DIR [LAB...]    (make student-tree OUT=DIR LABS="02b ring"; without LABS: all labs)
       teach/class/student_tree.py --check DIR [LAB...]    Does a line of a solution stand in this tree?
Writes the tree as students get it: our solutions of these labs are given as compiled code, and stand in no text.
STUDENTS.md in DIR says how to begin, LEFT_OUT.txt what is missing. hidden.txt says what is hidden. PROCESSORS="x86_64 aarch64"
names those for which there shall be code, if there is a compiler. Exit status 1: a line of a
solution would still be there; 2: DIR is not empty, or there is no such lab."""
import functools
import html
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(os.path.abspath(__file__)).parents[2]
ROOM = "teach/class"
SHORTEST = 20  # characters without spaces: a shorter line says too little to be somebody's
MOST_SHARED = 8  # lines of a solution that another source may have, by chance
PIECE = 12  # how many characters of a line are looked up at once
STRIDE = SHORTEST - PIECE + 1  # of the pieces of a text: one of them lies within any line of ours
PROCESSORS = os.environ.get("PROCESSORS", "x86_64 aarch64").split()
GIVEN = "Given as compiled code: "  # tools/stepdiff.sh, tools/break.sh and teach/lab.sh know a file by it


def fail(text, status=2):
    print(f"teach/class/student_tree.py: {text}", file=sys.stderr)
    sys.exit(status)


@functools.cache
def output_of(*command):
    return subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True).stdout


class Plan:
    """Which files are hidden, and because of which lab."""

    def __init__(self, labs):
        self.labs = labs
        self.counts = output_of("tools/stepdiff.sh", "--count")
        self.words, self.tests = [], []  # of hidden.txt: a word, a lab or "", paths; and names of tests
        for line in (TOP / ROOM / "hidden.txt").read_text().splitlines():
            word, _, paths = line.partition(": ")
            if word == "test":
                self.tests.append(f'@test "{paths}')
            elif line and not line.startswith("#"):
                word, _, lab = word.partition(" ")
                self.words.append((word, lab, paths.split()))
        self.own, self.after = {}, {}  # sources: the lab in which they are written, or from which they go on
        self.programs = [line.replace(":", "").split()[:3] for line in self.counts.splitlines()]  # name, before, program
        for path, lab in self.listed("source"):
            self.own.setdefault(path, lab)
        self.add_programs()
        for path, lab in self.listed("after"):
            if path not in self.hidden():
                self.after[path] = lab
        self.add_programs()  # also those that go on from what the list has added
        self.answers = dict(reversed([*self.listed("answer")]))

    def add_programs(self):
        """A program is hidden if its lab is handed out, or if the program before it is hidden."""
        for name, before, program in self.programs:
            if not program.endswith(".c") or name == "dp":  # that leads to step 02, unlike the others
                continue
            if name in self.labs and not (TOP / "teach/lab" / name).is_dir():  # of a library lab hidden.txt names the source
                self.own[program] = name
            elif before in self.hidden():
                self.after[program] = self.hidden()[before]

    def hidden(self):
        return {**self.after, **self.own}

    def listed(self, word):
        """Paths of this word in hidden.txt, each with the lab that hides it: its own, or one whose solution that lab's has."""
        for has, lab, paths in self.words:
            cause = lab if not lab or lab in self.labs else self.hidden().get(self.program_of(lab))
            if has == word and cause is not None:
                yield from ((path, cause) for path in paths)

    def program_of(self, name):
        """Our program of a step; None for a library lab."""
        return next((program for step, _, program in self.programs if step == name), None)

    def said(self, path):
        """Why there is no such source, in words."""
        if path in self.own:
            return f"you write it in lab-{self.own[path]}"
        return f"it goes on from what you write in lab-{self.after[path]}"


def normal(line):
    """Without what may differ between two copies of a line: spaces, a page's entities and tags, sed's backslashes."""
    if "<" in line:
        line = re.sub(r"</?(?:span|tspan|text|b|i|em|code|mark)\b[^>]*>", "", line)
    if "&" in line:
        line = html.unescape(line)
    return "".join(line.split()).replace("\\", "")


class Lines:
    """Lines of the hidden sources, each with the source that has it first; finds them in other texts."""

    def __init__(self):
        self.source, self.pieces = {}, defaultdict(set)

    def add(self, path, text):
        for line in map(normal, text.splitlines()):
            if len(line) >= SHORTEST and line not in self.source:
                self.source[line] = path
                for i in range(STRIDE):
                    self.pieces[line[i:i + PIECE]].add(line)

    def remove(self, line):
        if self.source.pop(line, None):
            for i in range(STRIDE):
                self.pieces[line[i:i + PIECE]].discard(line)

    def within(self, text):
        """The lines that are in this line of a text."""
        text = normal(text)
        candidates = [self.pieces[piece] for i in range(0, len(text) - PIECE + 1, STRIDE) if (piece := text[i:i + PIECE]) in self.pieces]
        return sorted(line for line in set().union(*candidates) if line in text) if candidates else []

    def found(self, text):
        return Counter(line for each in text.splitlines() for line in self.within(each))


@functools.cache
def compilers():
    """How to compile for each processor for which there is a compiler here."""
    own, found = os.environ.get("CC", "cc").split(), []
    machine = output_of(*own, "-dumpmachine").split("-")[0]
    for processor in PROCESSORS:
        cross = f"{processor}-linux-gnu-gcc"
        flags = ["-march=x86-64", "-fcf-protection=none"] if processor == "x86_64" else []
        if processor == machine or shutil.which(cross):
            found.append((processor, [*(own if processor == machine else [cross]), *flags, "-S", "-O2", "-fopenmp", "-std=c11",
                                      "-D_GNU_SOURCE", "-fPIE", "-fno-ident", "-w", "-I.", "-x", "c", "-", "-o", "-"]))
    return found


def assembly(path, text, compiler):
    """What the compiler makes of a source, as C; without what the compiler of the file adds itself."""
    done = subprocess.run(compiler, cwd=TOP, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{path} does not compile: {(done.stderr.splitlines() or [''])[0]}", 1)
    kept = [line for line in done.stdout.splitlines() if not re.match(r"\s*\.(file|ident|section\s+\.note)\b", line)]
    escaped = [line.replace("\\", "\\\\").replace('"', '\\"') for line in [*kept, "\t.text"]]
    return "__asm__(\n" + "".join(f'    "{line}\\n"\n' for line in escaped) + ");\n"


def compiled(path, text, why):
    """A C file with the same functions as the source, and without it."""
    shown = f"/* {GIVEN}{why}.\n * This is what a compiler made of {path}: it links and runs as the source does. */\n"
    word = "#if"
    for processor, compiler in compilers():
        shown += f"{word} defined __{processor}__\n{assembly(path, text, compiler)}"
        word = "#elif"
    names = " and ".join(processor for processor, _ in compilers())
    return shown + f'#else\n#error "{path} is given as compiled code, for {names} only: ask your teacher for another students\' tree"\n#endif\n'


class Tree:
    def __init__(self, out, plan):
        self.out, self.plan = out, plan
        self.files = output_of("git", "ls-files", "-z").split("\0")[:-1]
        self.left_out = []  # lines of LEFT_OUT.txt
        self.dropped = set()  # paths that are not copied
        self.lines = Lines()

    def text(self, path):
        """The text of a file; None if it is no text."""
        try:
            return (TOP / path).read_text()
        except UnicodeDecodeError:
            return None

    def drop(self):
        """Leaves out what hidden.txt says."""
        for word in ("out", "without", "answer"):
            for path, _ in self.plan.listed(word):
                inside = [file for file in self.files if file == path or file.startswith(path + "/")]
                if not inside and path != ROOM:
                    fail(f"{ROOM}/hidden.txt names {path}, which is not there", 1)
                self.dropped.update(inside)
        for path in self.files:  # tests that look inside a hidden source
            if re.fullmatch(r"tests/.*/test_\w+\.c", path) and set(re.findall(r'^#include "(.*\.c)"', self.text(path), re.M)) & self.plan.hidden().keys():
                self.dropped.add(path)

    def dropped_folders(self):
        """What hidden.txt leaves out, as it says it."""
        return [path for word in ("out", "without", "answer") for path, _ in self.plan.listed(word)]

    def learn(self):
        """Collects the lines of the hidden sources that no source has that stays."""
        for path in [*self.plan.own, *self.plan.answers, *self.plan.after]:
            self.lines.add(path, self.text(path))
        begin = [before for _, before, _ in self.plan.programs]
        given = [path for path in self.files if path not in self.plan.hidden() and path not in self.dropped]
        given = [path for path in given if path.endswith((".c", ".h", ".cu")) or re.match(r"teach/lab/[^/]*\.(txt|hints)", path)]
        for path in sorted(given, key=lambda path: path not in begin and not path.startswith("common/")):
            found = self.lines.found(self.text(path))
            if len(found) > MOST_SHARED and path.endswith(".c") and path not in begin and not path.startswith(("common/", "teach/lab/")):
                fail(f"{path} has {len(found)} lines of {self.lines.source[next(iter(found))]}: name it in {ROOM}/hidden.txt", 1)
            for line in found:
                self.lines.remove(line)

    def say(self, found):
        """The line that takes the place of a text with these lines."""
        own = Counter()
        for line, times in found.items():
            source = self.lines.source[line]
            lab = self.plan.own.get(source) or self.plan.answers.get(source)
            if lab:
                own[lab] += times
        if own:
            return f"(left out here: you write it in lab-{own.most_common(1)[0][0]})"
        return f"(left out here: {self.plan.said(self.lines.source[next(iter(found))])})"

    def cut(self, text):
        """A document without the folded parts, blocks and lines that have a line of ours; and how many these were."""
        kept, count = [], 0
        for part in parts_of(text.splitlines()):
            found = self.lines.found("\n".join(part))
            if found:
                count += 1
                while kept and re.match(r"<!-- (from|varies|shown)", kept[-1]):
                    kept.pop()
                part = [self.say(found)]
            kept += part
        return "\n".join(kept) + "\n", count

    def copy(self):
        for path in self.files:
            if path in self.dropped or not (TOP / path).exists():
                self.left_out.append(f"left out: {path}")
                continue
            text = self.text(path)
            if path in self.plan.hidden():
                why = self.plan.said(path)
                self.write(path, compiled(path, text, why))
                self.left_out.append(f"given as compiled code: {path}: {why}")
            elif text is None or not self.changed(path, text):
                (self.out / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / path, self.out / path, follow_symlinks=False)

    def changed(self, path, text):
        """Writes or leaves out a text that cannot stay as it is."""
        if path.startswith("teach/quiz/"):
            return self.keep_questions(path, text)
        if path.startswith("tests/") and path.endswith(".bats"):
            return self.keep_tests(path, text)
        if re.match(r"teach/traps/.*\.txt", path) and self.trap_is_hidden(text) or \
                path.startswith("docs/edits/") and self.breaks_hidden(text.replace("For tools/break.sh", "tools/break.sh")):
            self.left_out.append(f"left out: {path}: it changes a source that is not here")
            return True
        if not self.lines.found(text) or path.endswith((".c", ".h", ".cu")):
            return False
        if path.endswith(".md"):
            cut, count = self.cut(text)
            self.write(path, cut)
            self.left_out.append(f"left out: {count} parts of {path}")
        else:
            self.left_out.append(f"left out: {path}: it shows a solution")
        return True

    def keep_questions(self, path, text):
        """Writes the questions of a quiz that can stay."""
        parts = questions(re.split("\n(?=ask )", text))
        kept = [part for part in parts if not self.is_hidden_question(part)]
        if len(kept) == len(parts):
            return False
        if kept:
            self.write(path, "\n".join(kept).rstrip("\n") + "\n")
        self.left_out.append(f"left out: {len(parts) - len(kept)} of {len(parts)} questions of {path}")
        return True

    def keep_tests(self, path, text):
        """Writes the tests of a bats file that can stay, and what they share. If they are all slow, make test would run none
        of them, which counts as a failure: so the file is left out."""
        tests, hides = TEST.findall(text), Tests(self, text).needs_hidden
        assert len(tests) == len(re.findall(r"^@test ", text, re.M)), f"{path}: a test ends with a line }} and an empty line"
        gone = [test for test in tests if hides(test)]
        if not gone:
            return False
        if any("test_tags=slow" not in test for test in tests if test not in gone):
            for test in gone:
                text = text.replace(test, "")
            self.write(path, re.sub(r"\n{3,}", "\n\n", text).rstrip("\n") + "\n")
        self.left_out.append(f"left out: {len(gone)} of {len(tests)} tests of {path}")
        return True

    def breaks_hidden(self, text):
        """Does it change a copy of a source that is not here?"""
        steps = {name: program for name, _, program in self.plan.programs}
        named = re.findall(r"break\.sh ((?:[\w/.]+\.c|0\w+)(?:(?:,| and)? (?:and )?0\d\w?\b)*)", text)
        words = {word for name in named for word in re.split(r",? and |, | ", name)}
        return any(steps.get(word, word) in self.plan.hidden() for word in words) or \
            any(Path(hidden).name in text for hidden in self.plan.hidden() if re.search(r"beyond/|train_[a-c]_", hidden))

    def is_hidden_question(self, question):
        return self.breaks_hidden(question) or "stepdiff" in question or bool(self.lines.found(question))

    def trap_is_hidden(self, text):
        base = re.search(r"^base (\S+)", text, re.M)[1]
        return bool(self.lines.found(text)) or (self.plan.program_of(base) or base) in self.plan.hidden()

    def write(self, path, text):
        target = self.out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if (TOP / path).exists():
            shutil.copymode(TOP / path, target)

    def add(self):
        """Writes what only a students' tree has."""
        self.write("tools/stepdiff_counted.txt", self.plan.counts)
        for path, _ in self.plan.listed("says"):
            self.write(path, f'#!/bin/sh\necho "{path} is not in a students\' tree: STUDENTS.md says why" >&2\nexit 2\n')
            (self.out / path).chmod(0o755)
        self.add_capstone()
        tests = sum(int(line.split()[2]) for line in self.left_out if " tests of " in line)
        files = sum(line.startswith("left out: tests/") and line.endswith((".bats", ".c")) for line in self.left_out)
        with open(self.out / "tests/rules.mk", "a") as rules:
            rules.write("\n# In a students' tree some tests are left out.\ntest: | left-out\nleft-out:\n"
                        f"\t@echo 'This is a students'\\'' tree: {tests} tests and {files} more files of tests are left out (LEFT_OUT.txt).'\n"
                        ".PHONY: left-out\n")
        self.write("STUDENTS.md", students(self.plan.labs))
        readme = (self.out / "README.md").read_text().split("\n", 1)
        self.write("README.md", f"{readme[0]}\n\n**This is a students' tree: begin with [STUDENTS.md](STUDENTS.md).**\n{readme[1]}")
        self.write("LEFT_OUT.txt", "\n".join(["What is not in this tree, beside the one it was made of:", *sorted(self.left_out), ""]))

    def add_capstone(self):
        """What the judge of the capstone compares with: its answer, and the steps' programs that go with it."""
        why = "you write it in lab-capstone"
        self.write("docs/answers/capstone.c", compiled("docs/answers/capstone.c", self.text("docs/answers/capstone.c"), why))
        for step in sorted(TOP.glob("0[1-5]_*/train.c")):
            text = output_of("sed", "-f", "docs/answers/capstone.sed", str(step))
            name = f"docs/answers/capstone_{step.parent.name[:2]}.c"
            self.write(name, compiled(name, text, why))

    def verify(self):
        """No line of a hidden source is in any text of the tree."""
        wrong = []
        for path in sorted(path for path in self.out.rglob("*") if path.is_file()):
            if path.relative_to(self.out).parts[0] in ("lab", "build", ".git"): # what is written later
                continue
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            for number, line in enumerate(text.splitlines(), 1):
                for found in self.lines.within(line):
                    wrong.append(f"{path}:{number}: has a line of {self.lines.source[found]}: {line.strip()[:80]}")
            if path.suffix in (".svg", ".html"):  # a line may be cut into pieces
                flat = re.sub(r"<[^>]*>|\n", "", text)
                wrong += [f"{path}:1: has a line of {self.lines.source[found]}" for found in self.lines.within(flat)]
        if wrong:
            fail("\n  ".join([f"{len(wrong)} lines of solutions are left", *wrong[:20]]), 1)


def parts_of(lines):
    """Cuts a document into folded parts (<details>), blocks (```) and single lines."""
    i = 0
    while i < len(lines):
        end = i + 1
        if lines[i].startswith("<details"):
            while end < len(lines) and not lines[end - 1].startswith("</details>"):
                end += 1
        elif fence := re.match(r"\s*(```+)", lines[i]):
            while end < len(lines) and lines[end].strip() != fence[1]:
                end += 1
            end += 1
        yield lines[i:end]
        i = end


def questions(parts):
    """Puts together the lines of a question that ask."""
    whole = [""]
    for part in parts:
        whole[-1] += part
        whole[-1:] = [whole[-1] + "\n"] if part.startswith("ask ") and "\n" not in part else [whole[-1], ""]
    return whole[:-1]


# A test of a bats file, with the comments above it: one line, or more that end with } before an empty line.
TEST = re.compile(r"(?:^#[^\n]*\n)*^@test [^\n]*(?:\{[^\n]+\}\n|\{\n.*?^\}(?:\n(?=\n)|\n?\Z))", re.M | re.S)


class Tests:
    """The tests of a bats file that need what a students' tree lacks: they name it, or call a function of the file that does."""

    def __init__(self, tree, text):
        self.tree = tree
        self.words = [re.escape(path) for path in [*tree.plan.hidden(), *tree.dropped_folders()]] + \
            [r"\^answer ", r"stepdiff\.sh", "docs/answers", "docs/edits", "teach/traps", r"trap\.py check", r"make trap"]
        helpers = TEST.sub("", text)
        for name, body in re.findall(r"^(\w+)\(\) \{(.*?)^\}", helpers, re.M | re.S):
            if name not in ("setup", "setup_file", "teardown") and self.needs_hidden(body):
                self.words.append(rf"^\s*{name}\b")

    def needs_hidden(self, part):
        return bool(re.search("|".join(self.words), part, re.M)) or any(name in part for name in self.tree.plan.tests) or self.tree.breaks_hidden(part) or bool(self.tree.lines.found(part))


def students(labs):
    listed = " ".join(f"lab-{lab}" for lab in labs)
    return f"""# Begin here

In this tree you write what is missing: {listed}.

1. `./setup.sh` installs what the build needs, and `make` builds everything. All programs train, also those that you are
   going to write: they are given as compiled code, in a C file that only your computer can read.
2. `make lab` lists the labs. `make lab-{labs[0]}` begins one: it puts a file into `lab/{labs[0]}`, and says what to do with it.
3. `make check-lab` says how far you are. It runs your program beside ours, and compares what they do.
4. Read the book: [docs](docs/README.md). Where it would show what you are going to write, a line says so.

A lab starts from the program before it. If that is one that you write, it starts from yours: do the labs in their order.
What you hand in is the file in `lab/`. `make test` runs the tests that this tree has.

[LEFT_OUT.txt](LEFT_OUT.txt) lists what is missing here: our solutions, answers to the exercises, what shows them, and what is
for teachers. Links to those files lead nowhere. Commands that change a copy of a source (`tools/break.sh`, `make diff-02b`) or
need those files (`make site`, `make slides`) say that they cannot.
"""


def chosen(words, known):
    """The labs as teach/lab.sh knows them: 2b is 02b."""
    labs = [name for name in known if not words or name in words or name.removeprefix("0") in words]
    for word in words:
        if word not in known and f"0{word}" not in known:
            fail(f"'{word}' is none of {' '.join(known)}")
    return labs


def main():
    words = sys.argv[1:]
    only_check = words[:1] == ["--check"]
    words = words[only_check:]
    if not words or words[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    out = Path(words[0])
    if only_check and not (out / "STUDENTS.md").exists():
        fail(f"{out} is no students' tree: it has no STUDENTS.md")
    if not only_check and out.exists() and (not out.is_dir() or any(out.iterdir())):
        fail(f"{out} is there and not empty: name a folder that is not there yet")
    known = [line.split()[0] for line in output_of("teach/lab.sh", "list").splitlines()]
    plan = Plan(chosen(words[1:], known))
    tree = Tree(out, plan)
    tree.drop()
    tree.learn()
    if not only_check:
        tree.copy()
        tree.add()
    tree.verify()
    print(f"{out} is a students' tree for lab-{', lab-'.join(plan.labs)}. {len(plan.hidden())} sources are given as compiled code; "
          f"none of the {len(tree.lines.source)} lines that only solutions have is in it.")


if __name__ == "__main__":
    main()
