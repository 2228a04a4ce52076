#!/usr/bin/env python3
"""Usage: tools/docs.py check|refresh [FILE.md ...]      (all of docs/ and the READMEs)

What the documents quote is made again and compared (check), or put in its place (refresh).

In a ```console block each "$ COMMAND" is run, and what it prints, errors too, must be the lines below it.
A command goes on in the next line after a backslash, or in an open quote. Any other block says in a comment above it where it comes from:

    <!-- from: COMMAND -->           the output of a command: a diff, an excerpt of a file
    <!-- varies: numbers, order -->  any numbers will do; lines may come in any order
    <!-- needs: PROGRAM, ... -->     not compared where there is no such program; extras/ROOM: in a build without extras
    <!-- not run: REASON -->         nothing to compare with

Numbers with a decimal point may differ in their last digits from one CPU to another, and this machine's
name is written as myhost. Commands run at the top of the tree, or rather in a folder that looks like it,
so that what they write is not left.
"""
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOLERANCE = 2e-3  # relative
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
EXTRAS = not os.path.exists(BUILD + "/parts") or "EXTRAS=0\n" not in open(BUILD + "/parts").read()
NUMBER = re.compile(r"\d+\.\d+|\d+")
COLUMNS = 100  # of a command's line: what a projector shows
SECONDS = 400  # that a command may take
OWN = {"checkpoints", "metrics", "logs", "lab"}  # what commands write: not the tree's


def show(command, folder):
    """What a command prints on a pipe, as the lines of one terminal. What it exports, stays so."""
    keeping = f"[ ! -e .exports ] || . ./.exports; trap 'export -p >.exports' EXIT\n{command}"
    # A make among the commands shall not know that one has called us.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    process = subprocess.Popen(["/bin/bash", "-c", keeping], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                               start_new_session=True)
    try:
        printed = process.communicate(timeout=SECONDS)[0]
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "myhost", printed).splitlines()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return [f"(not done within {SECONDS} s)"]
    except KeyboardInterrupt: # its session does not get Ctrl-C
        os.killpg(process.pid, signal.SIGKILL)
        raise


def same_number(a, b):
    if "." not in a or "." not in b:
        return a == b
    return abs(float(a) - float(b)) <= TOLERANCE * max(abs(float(a)), abs(float(b)))


def shape(line, varies):
    """A line without its numbers; where any will do, their widths may move the columns, too."""
    line = NUMBER.sub("#", line)
    return re.sub(" +", " ", line) if "numbers" in varies else line


def same_line(quoted, printed, varies):
    if shape(quoted, varies) != shape(printed, varies):
        return False
    pairs = zip(NUMBER.findall(quoted), NUMBER.findall(printed))
    return "numbers" in varies or all(same_number(a, b) for a, b in pairs)


def same(quoted, printed, varies):
    if len(quoted) != len(printed):
        return False
    if "order" not in varies:
        return all(same_line(q, p, varies) for q, p in zip(quoted, printed))
    left = list(printed)
    for line in quoted:
        match = next((p for p in left if same_line(line, p, varies)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def missing(needed):
    """Says that a program or an extra that is needed is not here; None if all are."""
    for one in needed.split(", ") if needed else []:
        if not (EXTRAS if one.startswith("extras/") else shutil.which(one)):
            return f"there is no {one}"
    return None


class Block:
    """A fenced block: its lines [first, end) in the file, and what the comment above it says."""

    def __init__(self, lines, fence):
        self.language = lines[fence][3:].strip()
        self.first = fence + 1
        self.end = next(i for i in range(self.first, len(lines)) if lines[i].startswith("```"))
        self.quoted = lines[self.first:self.end]
        self.notes = {}
        for line in reversed(lines[:fence]):
            note = re.fullmatch(r"<!-- (from|varies|needs|not run): (.*) -->", line)
            if not note:
                break
            self.notes[note[1]] = note[2]

    def long_lines(self):
        """Those of commands that a terminal of COLUMNS would wrap."""
        commands = self.quoted if self.language == "sh" else sum(commands_in(self.quoted), []) if self.language == "console" else []
        return [line for line in commands if len(line) > COLUMNS]

    def excuse(self):
        """Why it cannot be made again here, or None."""
        return missing(self.notes.get("needs")) or self.notes.get("not run")

    def made_again(self, folder):
        """The lines as they should be now; None where nothing says how to make them."""
        if "from" in self.notes:
            return show(self.notes["from"], folder)
        if self.language != "console":
            return None
        lines = []
        for command in commands_in(self.quoted):
            lines += command + show("\n".join(command)[2:], folder)
        return lines


def goes_on(command):
    """Does it end in a backslash, or in an open quote?"""
    try:
        shlex.split(command)
        return False
    except ValueError:
        return True


def commands_in(lines):
    """Each command as its lines, the first of which begins with "$ "."""
    at = 0
    while at < len(lines):
        end = at + 1
        if lines[at].startswith("$ "):
            while end < len(lines) and goes_on("\n".join(lines[at:end])):
                end += 1
            yield lines[at:end]
        at = end


def blocks_of(lines):
    blocks, at = [], 0
    while at < len(lines):
        if lines[at].startswith("```"):
            blocks.append(Block(lines, at))
            at = blocks[-1].end
        at += 1
    return blocks


def mirror(folder):
    """Makes the folder look like the top of the tree, but for what commands write there."""
    for name in os.listdir(ROOT):
        if name not in OWN and name != ".git":
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))


def work_through(path, refresh):
    """Returns how many blocks of a document are not as they should be."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    wrong, replacements = 0, []
    with tempfile.TemporaryDirectory() as folder:
        mirror(folder)
        for block in blocks_of(lines):
            place = f"{os.path.relpath(path, ROOT)}:{block.first + 1}"
            for line in block.long_lines():
                print(f"{place}: a command's line of {len(line)} columns, at most {COLUMNS}: {line}")
                wrong += 1
            if block.excuse():
                print(f"{place}: not run: {block.excuse()}")
                continue
            made = block.made_again(folder)
            if made is None and block.language not in ("text", "sh"):
                print(f"{place}: a block that does not say where it comes from")
                wrong += 1
            elif made == []:
                print(f"{place}: its command prints nothing")
                wrong += 1
            elif made is not None and refresh:
                replacements.append((block, made))
            elif made is not None and not same(block.quoted, made, block.notes.get("varies", "")):
                print(f"{place}: quoted\n  " + "\n  ".join(block.quoted))
                print("but it is\n  " + "\n  ".join(made))
                wrong += 1
    for block, made in reversed(replacements):
        lines[block.first:block.end] = made
    if refresh:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    return wrong


def documents():
    found = [os.path.join(ROOT, "README.md")]
    extras = sorted("extras/" + name for name in os.listdir(os.path.join(ROOT, "extras")))
    for folder in [*sorted(os.listdir(ROOT)), "docs/answers", *extras]:
        if folder in ("common", "docs", "docs/answers", *extras) or re.match(r"0[1-5]_", folder):
            path = os.path.join(ROOT, folder)
            found += sorted(os.path.join(path, n) for n in os.listdir(path) if n.endswith(".md"))
    return found


def main():
    if len(sys.argv) < 2 or sys.argv[1] not in ("check", "refresh"):
        print(__doc__.split("\n\n")[0], file=sys.stderr)
        return 2
    paths = [os.path.abspath(path) for path in sys.argv[2:]] or documents()
    wrong = sum(work_through(path, sys.argv[1] == "refresh") for path in paths)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
