#!/usr/bin/env python3
"""Usage: bench/bench.py [SUITE ...] [options]      (or: make bench SUITES="SUITE ..." ARGS="options")

Runs the suites of bench/suites, or those that are named, by file or by suite. In each, the contenders take
turns, A B A B ..., so that whatever else the machine does meets them all. What is quoted: the median of the
turns, with the lowest and the highest; ratios are taken turn by turn, and of these the median. The tables go
to standard output, build/bench/NAME.json and bench.json hold all figures, NAME.png and .svg the curves,
RESULTS.md the same tables for bench/RESULTS.md, which --write puts there.

A contender that is not installed is named, and the rest runs. One that fails or hangs is named too, has no
further turns, and makes the exit status 1. A goal that is missed does not: the last lines say which are.

A new benchmark is one file in bench/suites: bench/suite.py says what goes into it."""

import argparse
import atexit
import importlib.util
import json
import math
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import machine
import report

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUSY = 0.05  # others' share of the machine from which on a reader is warned
GRACE = 5  # seconds, if not less than a turn has: from "please end" to the end


def parse():
    usage, text = __doc__.split("\n\n", 1)
    parser = argparse.ArgumentParser(usage=usage.split(": ")[1].split("   ")[0], description=text,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", metavar="SUITE", nargs="*", help="all of them, unless some are named")
    parser.add_argument("--turns", type=int, default=0, help="of each suite, however long they take")
    parser.add_argument("--quick", action="store_true", help="one turn, to see whether it works")
    parser.add_argument("--minutes", type=float, default=9, help="for all suites, shared among them (9)")
    parser.add_argument("--write", nargs="?", metavar="FILE", const=ROOT / "bench/RESULTS.md", type=pathlib.Path,
                        help="put the tables into FILE (bench/RESULTS.md), in the place of older ones")
    parser.add_argument("--list", action="store_true", help="name the suites, and run none")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "bench/suites", help="of the suites")
    args = parser.parse_args()
    args.folder, args.write = args.folder.resolve(), args.write and args.write.resolve()
    if args.turns < 0 or args.minutes <= 0:
        parser.error("--turns and --minutes are numbers from 1 on")
    return args


def load_suites(folder, names):
    """The suites whose own name, or whose file's, is among the names; all, if there are no names."""
    suites = []
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        suites += [(path.stem, suite) for suite in module.SUITES]
    for name in names:
        if not any(name in (file, suite.name) for file, suite in suites):
            sys.exit(f"bench.py: there is no suite {name}: --list names them")
    return [suite for file, suite in suites if not names or {file, suite.name} & set(names)]


class Turns:
    """A contender in the course of a suite: what it measured in each turn, and why it left, if it did."""

    def __init__(self, contender, python, build):
        def expand(word):
            return str(word).replace("{python}", python or "{python}").replace("{build}", build)

        self.name = contender.name
        self.command = [expand(word) for word in contender.command]
        self.environment = {name: expand(value) for name, value in contender.environment.items()}
        self.figures = []  # of each turn: {(case, x): (value, unit)}
        self.loads = []  # of each turn: others' share of the machine
        self.missing = self.failed = ""
        if "{python}" in self.command:
            self.missing = "no PyTorch here: tests/against/torch/venv.sh gets it"
        for program in [self.command[0], *map(expand, contender.needs),
                        *(word for word in self.command if word.startswith(build + "/"))]:
            if not self.missing and not shutil.which(program) and not os.path.exists(program):
                self.missing = f"no {program} here"

    def take(self, timeout):
        load = machine.Load()
        try:
            self.figures.append(figures(output(self.command, self.environment, timeout)))
            self.loads.append(load.others())
        except (OSError, ValueError) as reason:
            self.failed = str(reason)


def output(command, environment, timeout):
    """What a command prints. ValueError if it fails; however it ends, nothing of it goes on."""
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen(command, env={**os.environ, "TMPDIR": folder, **environment}, text=True, errors="replace",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise ValueError(f"not done after {timeout:g} s, and killed") from None
        finally:
            if process.poll() is None:
                process.terminate()  # a launcher ends its ranks and clears up
                try:
                    process.wait(min(GRACE, timeout))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            machine.end_children()
    if process.returncode != 0:
        err_lines = [line.strip() for line in err.splitlines() if any(map(str.isalpha, line))]
        raise ValueError(f"status {process.returncode}: {err_lines[-1] if err_lines else 'it did not say why'}")
    return out


def figures(out):
    """The lines of JSON among the output, as {(case, x): (value, unit)}."""
    found = {}
    for line in out.splitlines():
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
            case, x, value, unit = row["case"], row.get("x"), float(row["value"]), row["unit"]
            if not (math.isfinite(value) and value >= 0 and isinstance(case, str) and isinstance(unit, str)
                    and (x is None or isinstance(x, (int, float)) and x > 0)):
                raise ValueError
            found[case, x] = (value, unit)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"not understood: {line[:200]}") from None
    if not found:
        raise ValueError("it printed no figure")
    return found


def progress(text):
    end, begin = ("", "\r\033[K") if sys.stderr.isatty() else ("\n" if text else "", "")
    print(begin + text, end=end, file=sys.stderr, flush=True)


def run(suite, turns, seconds, python, build):
    """Lets the contenders of a suite take turns; how often they did, and who else used the machine before."""
    load = machine.Load()
    time.sleep(0.5)
    before = load.others()
    if before > BUSY:
        progress(f"{suite.name}: warning: others use {before:.0%} of this machine already")
    contenders = [Turns(contender, python, build) for contender in suite.contenders]
    begin, longest, turn = time.monotonic(), 0.0, 0
    while turn < turns and (turn == 0 or time.monotonic() - begin + longest < seconds):
        turn, turn_began = turn + 1, time.monotonic()
        for contender in contenders:
            if not contender.missing and not contender.failed:
                progress(f"{suite.name}: turn {turn} of {turns}, {contender.name}")
                contender.take(suite.timeout)
        longest = max(longest, time.monotonic() - turn_began)
    progress("")
    return contenders, turn, before


def spread(values):
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values), "turns": values}


def ratios(case, x, ours, theirs):
    """How many times better ours is, turn by turn; None where no turn has both."""
    key = (case, x)
    both = [(a[key], b[key]) for a, b in zip(ours.figures, theirs.figures) if key in a and key in b]
    pairs = [(a, b) if "/s" in unit else (b, a) for (a, unit), (b, _) in both]
    return spread([a / b for a, b in pairs if b > 0]) if any(b > 0 for _, b in pairs) else None


def units_of(contenders):
    """The cases in the order in which they were first seen, with their units. Who measures in others is out."""
    units = {}
    for contender in contenders:
        own = {key: unit for turn in contender.figures for key, (_, unit) in turn.items()}
        wrong = [key for key, unit in own.items() if units.get(key, unit) != unit]
        if wrong:
            contender.failed = f"{wrong[0][0]} is in {own[wrong[0]]}, where others have {units[wrong[0]]}"
            contender.figures = []
        else:
            units.update(own)
    return units


def summarise(suite, contenders, turn, before):
    """All that is known about a suite, as it goes into its JSON file; from it the tables are made."""
    cases = []
    for (case, x), unit in units_of(contenders).items():
        one = {"case": report.name_of(case, x, suite.axis), "group": case, "x": x, "unit": unit,
               "by": {}, "ratios": {}}
        for ours in contenders:
            values = [found[case, x][0] for found in ours.figures if (case, x) in found]
            if values:
                one["by"][ours.name] = spread(values)
            found = {theirs.name: ratios(case, x, ours, theirs) for theirs in contenders if theirs is not ours}
            one["ratios"][ours.name] = {name: ratio for name, ratio in found.items() if ratio}
        cases.append(one)
    loads = [share for contender in contenders for share in contender.loads]
    others = {"before": before, "during": statistics.mean(loads) if loads else 0, "worst": max(loads, default=0)}
    return {"name": suite.name, "title": suite.title, "note": suite.note, "axis": suite.axis, "bus": suite.bus,
            "turns": turn, "others": {**others, "warn": max(before, others["during"]) > BUSY},
            "contenders": [{"name": one.name, "command": one.command, "environment": one.environment,
                            "missing": one.missing, "failed": one.failed} for one in contenders],
            "cases": cases, "goals": [verdict(goal, suite, cases) for goal in suite.goals]}


def verdict(goal, suite, cases):
    """Whether a goal is reached; of several sizes the worst decides."""
    ours = goal.ours or suite.contenders[0].name
    of, name = [case for case in cases if case["case"] == goal.case], goal.case
    if goal.x_from:
        of = [case for case in cases if case["group"] == goal.case and (case["x"] or 0) >= goal.x_from]
        name = report.name_of(goal.case, goal.x_from, suite.axis, "from ")
    rate = any("/s" in case["unit"] for case in of)
    if goal.beside:
        wanted = f"at least {goal.ratio:g}x {goal.beside}"
        found = [(case["ratios"].get(ours, {}).get(goal.beside), case) for case in of]
        better, limit, unit = True, goal.ratio, "x"
    else:
        unit = " " + of[0]["unit"] if of else ""
        wanted = f"at {'least' if rate else 'most'} {goal.limit:g}{unit}"
        found = [(case["by"].get(ours), case) for case in of]
        better, limit = rate, goal.limit
    result = {"goal": f"{name}: {ours} {wanted}", "verdict": "not measured", "found": ""}
    if found and all(value for value, _ in found):
        value, case = (min if better else max)(found, key=lambda pair: pair[0]["median"])
        reached = value["median"] >= limit if better else value["median"] <= limit
        result["verdict"] = "reached" if reached else "missed"
        result["found"] = report.cell(value, unit) + (f" at {report.size(case['x'], suite.axis)}" if len(of) > 1 else "")
    return result


def main():
    args = parse()
    os.chdir(ROOT)  # what contenders name lies there
    suites = load_suites(args.folder, args.suites)
    if args.list:
        print("\n".join(f"{suite.name:20} {suite.title}" for suite in suites))
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # not before its contender has ended
    machine.inherit_orphans()
    atexit.register(machine.end_children)  # a signal may come while one is being started
    build = os.environ.get("BUILD", "build")
    out = pathlib.Path(ROOT, build, "bench")
    out.mkdir(parents=True, exist_ok=True)
    torch_bin = os.environ.get("TORCH_BIN")
    python = os.path.join(torch_bin, "python") if torch_bin else None
    facts = machine.describe(python)
    print(report.facts(facts), flush=True)
    share = min(1.0, 60 * args.minutes / max(1e-9, sum(suite.seconds for suite in suites)))
    done = []
    for suite in suites:
        turns = 1 if args.quick else args.turns or suite.turns
        seconds = math.inf if args.turns else share * suite.seconds
        one = summarise(suite, *run(suite, turns, seconds, python, build))
        one["machine"] = facts
        (out / f"{suite.name}.json").write_text(json.dumps(one, indent=1) + "\n", encoding="utf-8")
        done.append(one)
        print("\n" + report.markdown(one), flush=True)
        report.plot(one, out)
    (out / "bench.json").write_text(json.dumps({"machine": facts, "suites": done}, indent=1) + "\n",
                                    encoding="utf-8")
    (out / "RESULTS.md").write_text("\n".join(map(report.block, done)), encoding="utf-8")
    if args.write:
        report.write(args.write, done)
    print("\n" + report.goals(done))
    return 1 if any(one["failed"] for suite in done for one in suite["contenders"]) else 0


if __name__ == "__main__":
    sys.exit(main())
