#!/usr/bin/env python3
"""Usage: tests/steps/pbs.py FILE...     Whether OpenPBS's qsub would understand the #PBS lines of job scripts.

By the manual pages qsub(1B) and pbs_resources(7B): lines that begin with #PBS, up to the first command; the options -N,
-l select= and walltime=, -j, -o, -e and -q. Prints a line for each mistake; status 1 if there is one."""
import re, sys

COUNTS = {"ncpus", "mpiprocs", "ompthreads", "ngpus"}


def select_mistakes(value):
    """N:resource=value:...+N:..., as of -l select."""
    for chunk in value.split("+"):
        count, *resources = chunk.split(":")
        if resources and "=" in count:
            yield f"select: a number of nodes comes first, not {count}"
        elif not re.fullmatch(r"[1-9]\d*", count):
            yield f"select: {count} is no number of nodes"
        for resource in resources:
            name, _, amount = resource.partition("=")
            if name in COUNTS and not re.fullmatch(r"[1-9]\d*", amount) and (name, amount) != ("ngpus", "0"):
                yield f"select: {resource}: a whole number is expected"
            elif name == "mem" and not re.fullmatch(r"\d+([kmgt]?[bw])?", amount):
                yield f"select: {resource}: a size such as 4gb is expected"
            elif name not in COUNTS | {"mem"}:
                yield f"select: {name} is no resource"


def option_mistakes(option, value):
    if option == "-l" and value.startswith("select="):
        yield from select_mistakes(value.removeprefix("select="))
    elif option == "-l":
        if not re.fullmatch(r"walltime=(\d+:)?([0-5]?\d:)?[0-5]?\d", value):
            yield f"-l {value}: neither select= nor a walltime"
    elif option == "-N":
        if not re.fullmatch(r"[A-Za-z0-9][\w.+-]{0,229}", value):
            yield f"-N {value}: not a name"
    elif option == "-j":
        if value not in ("oe", "eo", "n"):
            yield f"-j {value}: oe, eo or n is expected"
    elif option == "-q":
        if not re.fullmatch(r"\w[\w.-]*(@[\w.-]+)?|@[\w.-]+", value):
            yield f"-q {value}: not a queue"
    elif option not in ("-o", "-e"):
        yield f"{option}: not an option that this check knows"
    if not value or " " in value:
        yield f"{option} {value}: one word is expected"


def mistakes(lines):
    found = 0
    for number, line in enumerate(lines, 1):
        if not re.match(r"\s*(#|:|$)", line):
            break  # qsub stops at the first command
        if line.startswith("#PBS"):
            found += 1
            directive = re.fullmatch(r"#PBS +(-\w) +(.*)", line.rstrip("\n"))
            if directive is None:
                yield number, "not #PBS -X VALUE"
                continue
            for mistake in option_mistakes(*directive.groups()):
                yield number, mistake
    if found == 0:
        yield 1, "no #PBS line before the first command"
    for late, line in enumerate(lines[number:], number + 1):
        if line.startswith("#PBS"):
            yield late, "behind the first command: qsub ignores it"


status = 0
for path in sys.argv[1:]:
    for number, mistake in mistakes(open(path).readlines()):
        print(f"{path}:{number}: {mistake}")
        status = 1
sys.exit(status)
