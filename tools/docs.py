#!/usr/bin/env python3
"""Usage: tools/docs.py check|quotes|refresh [FILE.md ...]      (all of docs/ and the READMEs; tools/docs.py list names them)

Regenerates what the documents quote, and compares it (check; quotes: only diffs and excerpts of files) or replaces it
(refresh).

An ```sh block and the ```text block right below it are a pair: the commands are run in order, and their output, errors
included, must equal the text. Comments above a block say more; for a pair they are above the commands:

    <!-- from: COMMAND -->           the output of a command: a diff, an excerpt of a file
    <!-- varies: numbers, order -->  any numbers will do; lines may come in any order
    <!-- needs: PROGRAM, ... -->     not compared where there is no such program; extras/ROOM: in a build without extras
    <!-- not run: REASON -->         nothing to compare with
    <!-- prints: nothing -->         of commands that have no text: they are run, and must print nothing

Without a comment, an ```sh or ```text block alone is not compared, and any other is refused.
Numbers with a decimal point may differ in their last digits from one CPU to another, and this machine's
name is written as myhost. Commands run in a folder that looks like the top of the tree, so that their files are not
left behind.
"""
import os
import re
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
COLUMNS = 100  # most columns of a command's line: a projector shows these
SECONDS = 400  # most that a command may take
OWN = {"checkpoints", "metrics", "logs", "lab"}  # what commands write: not the tree's


def show(command, folder):
    """The lines that a command prints, output and errors together. Variables that it exports are kept for the next
    command."""
    keeping = f"[ ! -e .exports ] || . ./.exports; trap 'export -p >.exports' EXIT\n{command}"
    # A make among the commands must not know that a make has called us; with CDPATH, cd would print the folder.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "CDPATH"}
    environment["LC_ALL"] = "C.UTF-8" # messages in English, and 0.5, not 0,5
    process = subprocess.Popen(["/bin/bash", "-c", keeping], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                               start_new_session=True)
    try:
        printed = process.communicate(timeout=SECONDS)[0]
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "myhost", printed).splitlines()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return [f"(not done within {SECONDS} s)"]
    except KeyboardInterrupt: # the command's session does not get Ctrl-C
        os.killpg(process.pid, signal.SIGKILL)
        raise


def same_number(a, b):
    if "." not in a or "." not in b:
        return a == b
    return abs(float(a) - float(b)) <= TOLERANCE * max(abs(float(a)), abs(float(b)))


def shape(line, varies):
    """A line without its numbers; if any numbers will do, their widths may move the columns, too."""
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
    """Names a needed program or extra that is not here; None if all are."""
    for one in needed.split(", ") if needed else []:
        if not (EXTRAS if one.startswith("extras/") else shutil.which(one)):
            return f"there is no {one}"
    return None


class Block:
    """A fenced block: its lines [first, end) in the file, what the comments above say, the commands that print it."""

    def __init__(self, lines, fence):
        self.language = lines[fence][3:].strip()
        self.first = fence + 1
        self.end = next(i for i in range(self.first, len(lines)) if lines[i].startswith("```"))
        self.quoted = lines[self.first:self.end]
        self.notes = {}
        for line in reversed(lines[:fence]):
            note = re.fullmatch(r"<!-- (from|varies|needs|not run|prints|by hand): (.*) -->", line)
            if not note:
                break
            self.notes[note[1]] = note[2]
        self.typed = None # the block of commands whose output this is
        self.commands = "\n".join(self.quoted) if "prints" in self.notes else self.notes.get("from")

    def pair_with(self, typed):
        self.typed, self.commands = typed, "\n".join(typed.quoted)
        self.notes, typed.notes = typed.notes, {}

    def excuse(self):
        """Why it cannot be made again here, or None."""
        return missing(self.notes.get("needs")) or self.notes.get("not run")

    def faults(self, folder, refresh, quotes):
        """Yields what is wrong with it. With refresh, its lines become what its commands print now."""
        for line in self.quoted if self.language == "sh" else []:
            if len(line) > COLUMNS:
                yield f"a command's line of {len(line)} columns, at most {COLUMNS}: {line}"
        if self.language == "console":
            yield "a ```console block: put its commands into an ```sh block, and what they print into a ```text block below"
        elif self.excuse() or (quotes and self.commands is not None and "from" not in self.notes):
            return
        elif self.commands is None:
            if self.notes or self.language not in ("text", "sh"):
                yield "a block that does not say where it comes from"
        else:
            due, made = [] if "prints" in self.notes else self.quoted, show(self.commands, folder)
            if due and not made:
                yield "its command prints nothing"
            elif due and refresh:
                self.quoted = made
            elif not same(due, made, self.notes.get("varies", "")):
                yield "quoted\n  " + "\n  ".join(due) + "\nbut it is\n  " + "\n  ".join(made)

    def work_on(self, path, folder, refresh=False, quotes=False):
        """Prints what is wrong with this block of a document; returns how many things."""
        place = f"{os.path.relpath(path, ROOT)}:{self.first + 1}: "
        if self.excuse() and not quotes:
            print(f"{place}not run: {self.excuse()}")
        faults = [place + fault for fault in self.faults(folder, refresh, quotes)]
        print("".join(f"{fault}\n" for fault in faults), end="")
        return len(faults)


def blocks_of(lines):
    blocks, at = [], 0
    while at < len(lines):
        if lines[at].startswith("```"):
            blocks.append(Block(lines, at))
            at = blocks[-1].end
        at += 1
    for typed, block in zip(blocks, blocks[1:]):
        is_below = not any(lines[typed.end + 1:block.first - 1])
        if is_below and (typed.language, block.language) == ("sh", "text") and typed.commands is None:
            block.pair_with(typed)
    return blocks


def mirror(folder):
    """Makes the folder look like the top of the tree, without what commands write there."""
    for name in os.listdir(ROOT):
        if name not in OWN and name != ".git":
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))


def work_through(path, refresh, quotes):
    """Returns how many blocks of a document are not as they should be."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    with tempfile.TemporaryDirectory() as folder:
        mirror(folder)
        blocks = blocks_of(lines)
        wrong = sum(block.work_on(path, folder, refresh, quotes) for block in blocks)
    for block in reversed(blocks):
        lines[block.first:block.end] = block.quoted
    if refresh:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    return wrong


def documents():
    found = [os.path.join(ROOT, "README.md")]
    extras = sorted("extras/" + name for name in os.listdir(os.path.join(ROOT, "extras")))
    beyond = sorted("beyond/" + name for name in os.listdir(os.path.join(ROOT, "beyond")) if "." not in name)
    rooms = ["05_fault_tolerance/checks", "05_fault_tolerance/reconfigure"]
    for folder in [*sorted(os.listdir(ROOT)), "docs/answers", *rooms, *beyond, *extras]:
        if folder in ("beyond", "common", "docs", "docs/answers", "launcher", *rooms, *beyond, *extras) or re.match(r"0[1-5]_", folder):
            path = os.path.join(ROOT, folder)
            found += sorted(os.path.join(path, n) for n in os.listdir(path) if n.endswith(".md"))
    return found


def main():
    task = sys.argv[1] if len(sys.argv) > 1 else ""
    if task not in ("check", "quotes", "refresh", "list"):
        print(__doc__.split("\n\n")[0], file=sys.stderr)
        return 2
    paths = [os.path.abspath(path) for path in sys.argv[2:]] or documents()
    if task == "list":
        print(*[os.path.relpath(path, ROOT) for path in paths], sep="\n")
        return 0
    wrong = sum(work_through(path, task == "refresh", task == "quotes") for path in paths)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
