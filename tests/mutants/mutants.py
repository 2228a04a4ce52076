#!/usr/bin/env python3
"""Mutation score: makes small faults in C files, one at a time, and counts those that the tests of the same folder see.

make check-mutants ARGS="[--number N] [--seed N] [--least PERCENT] FILE|FOLDER..."

The tests of common/base/log.c are those in tests/common/base. A mutant counts as caught if one of them fails, or takes
ten times as long as without it and more than 20 seconds. It does not count if it does not compile, or compiles to the
same instructions. Ends with status 1 if fewer than PERCENT of the others are caught (default: 0), or there are none.
Works in a copy of the tree, build/mutants.
"""
import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build/mutants"
# What is replaced, and by what: a pattern of the code and its replacement.
SWAPS = [(f" {a} ", f" {b} ") for pair in ("< <=", "> >=", "== !=", "&& ||", "+ -", "<= <", ">= >", "!= ==", "|| &&", "- +",
                                            "* +", "/ *", "+= -=", "-= +=", "% /") for a, b in [pair.split()]]
PATTERNS = [(re.compile(re.escape(a)), b) for a, b in SWAPS] + [
    (re.compile(r"(?<=[ (\[])0(?=[;,)\] ])"), "1"),
    (re.compile(r"(?<=[ (\[])1(?=[;,)\] ])"), "2"),
    (re.compile(r"(?<=[( ])!(?=[a-z(])"), ""),
    (re.compile(r"\btrue\b"), "false"),
    (re.compile(r"\bfalse\b"), "true"),
    (re.compile(r"\+\+"), "--"),
    (re.compile(r"(?<=\s)break;"), ";"),
    (re.compile(r"(?<=\s)continue;"), ";"),
    (re.compile(r"(?<=\()([a-z_]\w*), ([a-z_]\w*)(?=[,)])"), r"\2, \1"),  # swapped arguments
    (re.compile(r"^(\s+)(?!return|break|continue)[A-Za-z_]\w*\(.*\);$"), r"\1;"),  # a dropped call or check
]


def blank(match):
    """Spaces for a comment or a string, so that places stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def mutants_of(path):
    """All mutants of a file: its path, the line's number, the line and what it becomes."""
    text = path.read_text()
    code = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|^#(?:[^\n]|(?<=\\)\n)*', blank, text, flags=re.S | re.M)
    found = []
    for number, (line, bare) in enumerate(zip(text.split("\n"), code.split("\n"))):
        for pattern, replacement in PATTERNS:
            for match in pattern.finditer(bare):
                new = line[:match.start()] + match.expand(replacement) + line[match.end():]
                if new != line and (path, number, line, new) not in found:
                    found.append((path, number, line, new))
    return found


def make(*targets):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(["make", "-s", "-j2", *targets], cwd=TREE, env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def instructions(source):
    """The machine code of a file, or None if it does not compile."""
    target = f"build/{source.with_suffix('.o')}"
    if not make(target):
        return None
    return subprocess.run(["objdump", "-dr", "--no-show-raw-insn", TREE / target], stdout=subprocess.PIPE, check=True).stdout


def tests_of(source):
    """The test programs of a file's folder, or of the next folder above that has some; the file's own test first."""
    folder = ROOT / "tests" / source.parent
    while not list(folder.glob("test_*.c")) and folder != ROOT:
        folder = folder.parent
    if folder == ROOT:
        sys.exit(f"mutants: no C test is for {source}")
    found = [f"build/{test.with_suffix('').relative_to(ROOT)}" for test in sorted(folder.glob("test_*.c"))]
    return sorted(found, key=lambda test: source.stem not in test)


def passes(test, seconds):
    """Runs a test program within a time limit; all that it has started ends with it, where a process may have a space of numbers of its own."""
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"] if os.getuid() == 0 else []
    with subprocess.Popen([*alone, f"./{test}"], cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            return process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def judge(mutant, original, limits):
    """What becomes of a mutant: "caught", "survived", "same" or "no program"."""
    path, number, _, new = mutant
    source = path.relative_to(ROOT)
    lines = path.read_text().split("\n")
    lines[number] = new
    (TREE / source).write_text("\n".join(lines))
    try:
        code = instructions(source)
        if code is None:
            return "no program"
        if code == original:
            return "same"
        for test in sorted(tests_of(source), key=lambda test: (source.stem not in test, limits[test])):
            if not make(test):
                return "no program"
            if not passes(test, limits[test]):
                return "caught"
        return "survived"
    finally:
        (TREE / source).write_text(path.read_text())


def main():
    parser = argparse.ArgumentParser(usage="mutants.py [--number N] [--seed N] [--least PERCENT] FILE|FOLDER...")
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("paths", nargs="+", type=lambda path: Path(path).resolve())
    args = parser.parse_args()
    files = sorted({file for path in args.paths for file in ([path] if path.is_file() else path.rglob("*.c"))
                    if not re.search(r"_(no_\w+|cuda|nccl|cudnn)\.c$", file.name) and file.parent.name not in ("cuda", "nccl", "mpi")})
    mutants = [mutant for file in files for mutant in mutants_of(file)]
    random.Random(args.seed).shuffle(mutants)
    shutil.rmtree(TREE, ignore_errors=True)  # an earlier run's last mutant was built there
    subprocess.run([ROOT / "tests/copy_tree.sh", TREE], check=True)
    originals, limits, count = {}, {}, {"caught": 0, "survived": 0, "same": 0, "no program": 0}
    for mutant in mutants:
        source = mutant[0].relative_to(ROOT)
        if source not in originals:
            originals[source] = instructions(source)
        for test in set(tests_of(source)) - limits.keys():
            built = make(test)
            begun = time.monotonic()
            if not built or not passes(test, 300):
                sys.exit(f"mutants: {test} fails without a fault")
            limits[test] = max(20, 10 * (time.monotonic() - begun))
        result = judge(mutant, originals[source], limits)
        count[result] += 1
        if result == "survived":
            print(f"{source}:{mutant[1] + 1}: survived\n  - {mutant[2].strip()}\n  + {mutant[3].strip()}", flush=True)
        if count["caught"] + count["survived"] == args.number:
            break
    judged = count["caught"] + count["survived"]
    print(f"{count['caught']} of {judged} mutants caught; {count['same']} more were the same program, {count['no program']} none")
    return judged == 0 or 100 * count["caught"] < args.least * judged


if __name__ == "__main__":
    sys.exit(main())
