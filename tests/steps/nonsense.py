"""What tests/steps/options.bats says about a program, the first argument."""
import re
import subprocess
import sys

program = sys.argv[1]


def run(*arguments):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace", timeout=300)


def options():
    """Every option with a value that --help lists, and what stands for its value there."""
    found = re.findall(r"^  (?:-., )?--([a-z-]+) (\S+) ", run("--help").stdout, re.MULTILINE)
    return [(name, kind) for name, kind in found if kind[0].isupper() or "|" in kind]


def refused(words, *arguments):
    """Status 2, and one line, which has these words in it."""
    end = run(*arguments)
    right = end.returncode == 2 and end.stdout == "" and end.stderr.count("\n") == 1
    assert right and words in end.stderr, (program, arguments, end)
