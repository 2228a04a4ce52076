#!/usr/bin/env python3
"""Usage: reconfigure_kills.py FOLDER [--kills 100] [--ranks 4] [--model linear] [--device cpu] [--seed 0] [--steps 3000]

Kills ranks of RECONFIGURE=1 05_fault_tolerance/run.sh at random moments: one, two at once, a process that has just
taken a seat, now and then all of them, or stops one (SIGSTOP). Job after job, until this many were killed. The final file
of each job must be that of a job that nobody disturbs, the ranks that were left alone must keep their processes, and
no process may be left. Prints the times from a kill to the group that goes on."""
import argparse
import filecmp
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--kills", type=int, default=100)
parser.add_argument("--ranks", type=int, default=4)
parser.add_argument("--model", default="linear")
parser.add_argument("--device", default="cpu")
parser.add_argument("--steps", type=int, default=3000)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()
RUN = pathlib.Path(__file__).resolve().parents[2] / "05_fault_tolerance/run.sh"
KILLS_A_JOB = 40


def train(name, *more, **settings):
    """Starts a job. Rank 0 naps for 2 ms after each step, so that there is time to kill."""
    command = [RUN, str(args.ranks), "--model", args.model, "--epochs", "100000", "--max-steps", str(args.steps), "--save-every", "0",
               "--log-interval", "1000000", "--timeout", "3", "--threads", "1", "--device", args.device, "--checkpoint-dir", args.folder / name,
               "--save-every-steps", "200", *more]
    return subprocess.Popen(command, env=os.environ | settings | {"MAX_RESTARTS": "100000"}, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)


def ranks_of(launcher):
    """Process ids of the job's ranks, by rank."""
    found = {}
    for child in pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        try:
            if pathlib.Path(f"/proc/{child}/comm").read_text().startswith("train_reconf"):
                env = pathlib.Path(f"/proc/{child}/environ").read_text().split("\0")
                found[int(next(line[5:] for line in env if line.startswith("RANK=")))] = int(child)
        except (OSError, StopIteration):
            continue # it has just ended, or not yet begun
    return found


class Job:
    def __init__(self, name, chance):
        self.process = train(name, *(["--inject", "slow:0:1:2"]), RECONFIGURE="1")
        self.name, self.chance, self.killed, self.lines, self.times = name, chance, 0, [], []
        self.since = 0.0 # of a kill after which no group has formed yet
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            if self.since and re.search("generation .* goes on", line):
                self.times.append(time.monotonic() - self.since)
                self.since = 0.0

    def hurt(self):
        """Kills some ranks. Those that are left must keep their processes."""
        before = ranks_of(self.process.pid)
        if not before:
            return
        kind = self.chance.choices(["one", "two", "new", "all", "stop"], [60, 15, 20, 3, 2])[0]
        count = {"two": 2, "all": len(before)}.get(kind, 1)
        victims = self.chance.sample(sorted(before), min(count, len(before)))
        self.since = self.since or time.monotonic()
        for rank in victims:
            os.kill(before[rank], signal.SIGSTOP if kind == "stop" else signal.SIGKILL)
        self.killed += len(victims)
        if kind == "new": # its seat's next process, too, while it starts or gets its state
            time.sleep(self.chance.uniform(0, 0.15))
            after = ranks_of(self.process.pid).get(victims[0])
            if after and after != before[victims[0]]:
                os.kill(after, signal.SIGKILL)
                self.killed += 1
        after = ranks_of(self.process.pid)
        for rank, pid in before.items():
            if rank not in victims and self.process.poll() is None and after.get(rank, pid) != pid:
                sys.exit(f"{self.name}: rank {rank} is another process now, though nobody killed it: {kind} {victims}")

    def run(self, kills):
        while self.process.poll() is None and self.killed < kills:
            time.sleep(self.chance.uniform(0.02, 0.5))
            try:
                self.hurt()
            except OSError:
                continue # the job has ended
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            print("".join(self.lines[-40:]))
            sys.exit(f"{self.name}: it hangs: process {self.process.pid}")
        self.reader.join()
        if self.process.returncode != 0:
            sys.exit(f"{self.name}: status {self.process.returncode}:\n{''.join(self.lines[-30:])}")


def main():
    args.folder.mkdir(parents=True, exist_ok=True)
    quiet = train("quiet")
    output = quiet.communicate()[0]
    if quiet.returncode != 0:
        sys.exit(f"the undisturbed job failed: {output}")
    files = [path.name for path in (args.folder / "quiet").glob(f"{args.model}_*.safetensors")]
    killed, jobs, times = 0, 0, []
    begun = time.monotonic()
    while killed < args.kills:
        job = Job(f"job{jobs}", random.Random(args.seed * 1000 + jobs))
        job.run(min(KILLS_A_JOB, args.kills - killed))
        for name in files:
            if not filecmp.cmp(args.folder / "quiet" / name, args.folder / job.name / name, shallow=False):
                sys.exit(f"{job.name}: {name} differs from that of the undisturbed job")
        killed, jobs, times = killed + job.killed, jobs + 1, times + job.times
    print(f"{killed} ranks killed or stopped in {jobs} jobs, {time.monotonic() - begun:.0f} s: every final file is that of an undisturbed job; "
          f"from a kill to the next group: median {statistics.median(times):.3f} s, worst {max(times):.3f} s of {len(times)}")


main()
