#!/usr/bin/env python3
"""Usage: tests/class/many_runs.py [--runs N] [--first SEED] [--minutes M] [LAB]...      (root; after make grader)
Hands in our answers to these labs, or to all, in turn, N times (200), each time with another --seed, in the smallest container
of Gradescope: a cgroup of half a core and 768 MB. Each must get full points. Prints a line for each run and then a table;
exit status 1 if a run has lost points. --minutes: begins no run after them."""
import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
from handed import TOP, hand_in, ours, submission

CORES, MEMORY_MB = 0.5, 768
GROUPS = Path("/sys/fs/cgroup")
PERIOD = 100_000  # microseconds


class Limited:
    """A cgroup of its own for one run, of version 2 or 1: a container's limits."""

    def __init__(self):
        name = f"ddp-grade-{os.getpid()}"
        self.version = 2 if (GROUPS / "cgroup.controllers").exists() else 1
        self.folders = [GROUPS / name] if self.version == 2 else [GROUPS / kind / name for kind in ("cpu", "cpuacct", "memory")]
        for folder in dict.fromkeys(path.resolve() for path in self.folders):
            folder.mkdir()
        if self.version == 2:
            with contextlib.suppress(OSError):  # they are on, or the limits below fail
                (GROUPS / "cgroup.subtree_control").write_text("+cpu +memory")
            limits = {"cpu.max": f"{round(CORES * PERIOD)} {PERIOD}", "memory.max": MEMORY_MB << 20, "memory.swap.max": 0}
        else:
            limits = {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": round(CORES * PERIOD), "memory.limit_in_bytes": MEMORY_MB << 20}
        for file, limit in limits.items():
            path = self.path(file)
            if path.exists() or file != "memory.swap.max":  # a kernel may count no swap
                path.write_text(str(limit))

    def path(self, file):
        kind = file.split(".")[0]
        return self.folders[0] / file if self.version == 2 else GROUPS / kind / self.folders[0].name / file

    def enter(self):
        """Called by the process that shall be limited, with all that it starts."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def used(self):
        """Megabytes at the worst moment, page cache included; seconds of the processor; processes ended for want of memory."""
        if self.version == 2:
            peak, ended = self.path("memory.peak"), self.path("memory.events").read_text().split()
            seconds = int(self.path("cpu.stat").read_text().split()[1]) / 1e6
            return int(peak.read_text()) >> 20 if peak.exists() else 0, seconds, int(ended[ended.index("oom_kill") + 1])
        ended = self.path("memory.oom_control").read_text().split()
        return (int(self.path("memory.max_usage_in_bytes").read_text()) >> 20, int(self.path("cpuacct.usage").read_text()) / 1e9,
                int(ended[ended.index("oom_kill") + 1]) if "oom_kill" in ended else 0)

    def remove(self):
        for folder in dict.fromkeys(path.resolve() for path in self.folders if path.exists()):
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except OSError:  # a process is just ending
                    time.sleep(0.1)


def grade(lab, seed):
    """One run: the result, its seconds, and what it used."""
    with tempfile.TemporaryDirectory() as folder:
        hand_in(folder, lab, ours(lab))
        group, begin = Limited(), time.monotonic()
        try:
            done = subprocess.run(["teach/class/grade", folder, "--labs", lab, "--own", "--seed", str(seed), "--format", "gradescope"],
                                  cwd=TOP, capture_output=True, text=True, preexec_fn=group.enter,
                                  env={**os.environ, "LAB_SECONDS": os.environ.get("LAB_SECONDS", "180")})
            return done, time.monotonic() - begin, *group.used()
        finally:
            group.remove()


def table(rows):
    print("\nlab       runs  full points  seconds: min  median  max   processor seconds, most   MB, most")
    for lab in [*dict.fromkeys(row[0] for row in rows), "all"]:
        these = [row for row in rows if lab in (row[0], "all")]
        seconds = [row[2] for row in these]
        print(f"{lab:9} {len(these):4} {sum(row[1] for row in these):12} {min(seconds):13.0f} {statistics.median(seconds):7.0f} {max(seconds):5.0f} "
              f"{max(row[3] for row in these):25.0f} {max(row[4] for row in these):10}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e9)
    arguments = parser.parse_args()
    known = submission.known_labs()
    if unknown := [lab for lab in arguments.labs if lab not in known]:
        parser.error(f"there is no lab {unknown[0]}: they are {' '.join(known)}")
    if os.geteuid() != 0:
        parser.error("only root can limit what a run may use: run it as root")
    begin, rows = time.monotonic(), []
    turns = zip(range(arguments.first, arguments.first + arguments.runs), itertools.cycle(arguments.labs or known))
    for seed, lab in turns:
        if time.monotonic() - begin > 60 * arguments.minutes:
            break
        done, seconds, megabytes, used, ended = grade(lab, seed)
        try:
            tests = json.loads(done.stdout)["tests"]
            got, most = (sum(test[name] for test in tests) for name in ("score", "max_score"))
        except ValueError:
            tests, got, most = [], 0, 1
        print(f"{'ok' if got == most else 'LOST'}  {lab} --seed {seed}: {got:g} of {most:g} points, {seconds:.0f} s, {used:.1f} s of the processor, "
              f"{megabytes} MB{f', {ended} ended for want of memory' if ended else ''}", flush=True)
        if got != most:
            print(*(test["output"] for test in tests), done.stderr, sep="\n", flush=True)
        rows.append((lab, got == most, seconds, used, megabytes))
    if rows:
        table(rows)
    sys.exit(any(not full for _, full, *_ in rows))


if __name__ == "__main__":
    main()
