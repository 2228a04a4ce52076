#!/usr/bin/env python3
"""Usage: teach/lab/judge.py STEP PROGRAM OURS FOLDER
Runs a learner's PROGRAM of a step, and OURS, compares what their ranks did, and names every mistake that it knows, each
with its hint (hints.txt). The form of the source does not matter. Exit status 1: there are mistakes.
LAB_OURS=FOLDER keeps the runs of our program there, for the next time."""
import itertools
import math
import os
import signal
import sys
from pathlib import Path

sys.dont_write_bytecode = True

import checks
import orphans
import runs
import witness
from checks import NAMES, first_of, near
from runs import SECONDS, TOP, Run

STEPS = ("02a", "02b", "02c", "02", "03", "04", "05")
FORKS, NODES = STEPS[:4], STEPS[5:]
RESULTS = ("values", "replicas", "numbers", "waits", "evaluate_sum")  # follow from other mistakes, if there are any


class Judge:
    def __init__(self, step, program, ours, folder):
        self.step, self.program, self.ours, self.folder = step, program, ours, Path(folder)
        self.mistakes = []  # names
        self.complete = True  # the program came to its end

    def hint(self, name):
        for line in (TOP / "teach/lab/hints.txt").read_text().splitlines():
            steps, _, hint = line.partition(f" {name}: ")
            if hint and (steps == "all" or self.step in steps.split(",")):
                return hint
        raise LookupError(f"hints.txt has none for {name}")

    def check(self, title, mistakes):
        count = len(self.mistakes)
        try:
            for name, text in mistakes:
                witness.failed(text)
                if name in RESULTS and self.mistakes:
                    print("     this may follow from the mistakes above")
                else:
                    print(f"     hint{f' ({name})' if os.environ.get('LAB_NAMES') else ''}: {self.hint(name)}")
                self.mistakes.append(name)
        except (KeyError, IndexError, ValueError):  # the program ended in the middle
            if not self.mistakes:
                raise
        if len(self.mistakes) == count and self.complete:
            witness.passed(title)

    def setting(self):
        """The setting in which the two programs are run, in words."""
        nodes = f"{runs.RANKS} ranks" if self.step.startswith("02") else "2 ranks" if self.step.endswith(".sh") else \
            "2 pretended nodes with 2 ranks each"
        return f"{nodes}, {runs.SAMPLES} rows of random images, batches of {runs.BATCH}, 3 epochs"

    def run_ours(self, name, *options):
        kept = os.environ.get("LAB_OURS")
        folder = (Path(kept) if kept else self.folder) / f"{self.step}_{name}"
        run = Run.again(folder) or Run(self.step, self.ours, folder, *options).wait()
        if run.status != 0:
            raise witness.OursFails(run.err)
        return run

    def run_theirs(self, name, *options, **more):
        return Run(self.step, self.program, self.folder / name, *options, **more)

    def run_both(self, name):
        """The runs to compare: of our program (under this name) and of theirs."""
        options = ["--epochs", "3"] + (["--save-every-steps", "5"] if self.step == "05" else [])
        ours, theirs = self.run_ours(name, *options), self.run_theirs("theirs", *options).wait()
        if not ours.journals:
            print("cannot judge: a build without extras/ keeps no journals: make EXTRAS=1", file=sys.stderr)
            sys.exit(2)
        return ours, theirs

    def judge(self):
        step = self.step
        print(f"     runs yours and ours: {self.setting()}", flush=True)
        ours, theirs = self.run_both("ours")
        self.complete = checks.complete(theirs)
        begin = checks.check_own_model if step == "02a" else checks.check_group
        compared = [checks.check_end, checks.check_device, begin, checks.check_rows, checks.check_steps,
                    checks.check_values, checks.check_evaluation, checks.check_saves, checks.check_output]
        if step in NODES:
            compared.append(checks.check_disks)
        for check in compared:
            self.check(check.__doc__, check(step, ours, theirs))
        if not self.complete:
            print("     The rest is judged as soon as the program runs to its end.")
            return
        if [s.number for s in first_of(theirs)[0].steps] != [s.number for s in first_of(ours)[0].steps]:
            return  # it does not count its steps: when should a rank be killed or stopped?
        if step in FORKS:
            self.check(self.check_killed.__doc__, self.check_killed())
            if not self.mistakes:
                self.check(self.check_drawn.__doc__, self.check_drawn())
        elif step == "05":
            self.check(self.check_stopped.__doc__, self.check_stopped())
            self.check(self.check_watched.__doc__, self.check_watched())

    def check_killed(self):
        """a rank is killed, or ends by itself, and all end, with its status"""
        run, other = self.run_theirs("killed", "--epochs", "1000"), None
        if run.reach(3):  # while this job runs, another one must find a port, too
            other = self.run_theirs("absent", "--max-steps", "1", "--resume", run.folder / "absent").end(SECONDS / 3)
        run.signal_at(3, 2, signal.SIGKILL).wait(SECONDS / 6)
        if other:
            yield from self.faults_of_absent(other.look())
        if run.status is None:
            yield "killed_wait", "rank 2 was killed, and the program went on without it"
        elif run.left:
            yield "killed_left", f"rank 2 was killed and the program ended, but {len(run.left)} of its processes were left running"
        if run.status is not None and run.status != 137:
            yield "killed_status", f"rank 2 was killed by SIGKILL; the status at the end is {run.status}, not 137"

    def faults_of_absent(self, run):
        """The faults of a run that is to resume from a file which is not there: a rank ends with status 2, a usage error."""
        ours = self.run_ours("ours")
        count = int(first_of(ours)[0].one("model")["parameters"])
        lost = [line for line in run.err.splitlines() if "fatal: " in line]
        sent = [rank for rank, journal in first_of(run).items() for entry in journal.all("start")
                if entry.about[1] == "broadcast" and int(entry.values["count"]) >= count]
        if any(journal.steps for journal in first_of(run).values()):
            yield "resume_run", "--resume names a file that is not there, and it trains all the same"
            return
        if run.status == 0:
            yield "ended_status", "--resume names a file that is not there, so a rank ends with status 2; the status at the end is 0"
        elif lost and run.status not in (None, 2):
            yield "port", f"started a second time while it runs, it ends with status {run.status}: {lost[0]}"
        elif run.status not in (None, 2):
            yield "ended_status", f"a rank has ended with status 2; the status at the end is {run.status}"
        if sent and 0 not in sent:
            yield "resume_run", f"--resume names a file that is not there, and rank {sent[0]} waits for the broadcast all the same"
        elif sent:
            yield "load_first", "rank 0's weights are broadcast before the checkpoint is loaded, so what --resume loads is not sent"

    def check_drawn(self):
        """on data drawn from the seed, all ranks draw the same and continue from a checkpoint"""
        options = ["--model", "linear", "--dataset", "random", "--epochs", "3", "--lr", "0.1", "--momentum", "0.9", "--nproc", "auto"]
        if self.step == "02a":
            options += ["--global-batch-size", str(2 * runs.BATCH)]  # of two ranks
        ours = self.run_ours("drawn", *options)
        resumed = self.step != "02a"  # there the ranks overwrite each other's checkpoints
        if resumed:
            options += ["--resume", self.folder / "epoch_1.safetensors"]
            with open(options[-1], "xb") as file:  # what ours saves is not to be seen by theirs
                file.write((ours.saved / "epoch_1.safetensors").read_bytes())
        run = self.run_theirs("drawn", *options).wait()
        if set(run.journals) != set(ours.journals):
            yield "nproc", f"without --nproc {len(ours.journals)} ranks should train, and {len(run.journals)} did"
            return
        due = {rank: [step for step in journal.steps if step.epoch > 0 or not resumed] for rank, journal in first_of(ours).items()}
        for rank, journal in first_of(run).items():
            mine, others = ([(step.number, step.epoch, step.rows) for step in steps] for steps in (journal.steps, due[rank]))
            if mine != others:
                yield "resume_run", f"resumed after epoch 1, rank {rank} makes other steps than without the stop"
                return
        for number, key, rank in itertools.product(range(len(due[0])), ("loss", "weights"), due):
            mine, other = first_of(run)[rank].steps[number].values[key], due[rank][number].values[key]
            if not near(mine, other):
                yield "data" if (number, key) == (0, "loss") else "resume_state", \
                    f"{'resumed after epoch 1, ' * resumed}rank {rank} has {NAMES[key]} {mine} in step {number + 1}, ours has {other}"
                return

    def check_stopped(self):
        """told to stop, all ranks stop after the same step, save, and leave with 75; the next start continues there"""
        options = ["--batch-size", "2", "--epochs", "9"]
        run = self.run_theirs("stopped", *options).signal_at(30, 2, signal.SIGTERM).wait()
        last = {rank: journal.steps[-1].number for rank, journal in first_of(run).items() if journal.steps}
        if run.status != 75:
            yield "stop_status", f"rank 2 was told to stop by SIGTERM; the status at the end is {run.status}, not 75"
        if not last:
            return  # it has failed before
        if max(last.values()) >= 9 * math.ceil(runs.SAMPLES / (2 * 4)):
            yield "stop_agreed", "rank 2 was told to stop by SIGTERM, and the training went on to its end"
            return
        if len(set(last.values())) > 1:
            yield "stop_agreed", f"the ranks stop after different steps: {sorted(set(last.values()))}"
            return
        if not any(name.endswith(f"_s{last[0]}.safetensors") for name in run.files(run.saved)):
            yield "stop_save", f"nothing is saved of step {last[0]}, after which all stopped"
            return
        if any(name.endswith("_mnist.safetensors") for name in run.files(run.saved)):
            yield "stop_final", "it was stopped, and saves its weights as if it had come to its end"
        yield from self.faults_of_resume(run.folder, last[0], options + ["--max-steps", str(last[0] + 3)])

    def faults_of_resume(self, folder, last, options):
        """The faults of a second start, after a stop at step `last`; our program does the same steps without a stop."""
        again = self.run_theirs("again", *options, saved=folder).wait()
        until = last // 16 * 16 + 32  # not last + 3: other programs, which stop a few steps later, share this run of ours
        ours = self.run_ours(f"until_{until}", *options[:-1], str(until))
        for rank, journal in first_of(again).items():
            begin = journal.one("model").get("step")
            if int(begin or 0) != last and last + 1 not in [s.number for s in journal.steps[:1]]:
                yield "resume_step", f"stopped after step {last}; the next start begins after step {begin}"
                return
            if not journal.steps:
                yield "resume_step", f"the next start of rank {rank} takes no step"
                return
            due = {step.number: step for step in first_of(ours)[rank].steps}
            for mine in journal.steps:
                other = due.get(mine.number)
                later = due.get(mine.number + 1)
                if mine is journal.steps[0] and later and (mine.rows, mine.epoch) == (later.rows, later.epoch):
                    what, name = f"the rows of step {later.number}", "stop_fetched"
                elif other is None or (mine.rows, mine.epoch) != (other.rows, other.epoch):
                    what, name = "other rows, or another epoch,", "resume_rows"
                elif not all(near(mine.values[key], other.values[key]) for key in ("weights", "loss")):
                    what, name = "other weights, or another loss,", "resume_values"
                else:
                    continue
                yield name, f"resumed, step {mine.number} of rank {rank} has {what}{' than without the stop' if name != 'stop_fetched' else ''}"
                return
        if again.status != 0:
            yield "resume_step", f"the next start ends with status {again.status}"

    def check_watched(self):
        """--inject and --check-sync work: a flipped bit is found at once"""
        run = self.run_theirs("watched", "--epochs", "1", "--check-sync", "1", "--inject", "bitflip:1:3").wait()
        if "the replicas differ after step 3" not in run.err:
            yield "watch", "a bit of rank 1 was to flip in step 3, and --check-sync 1 to find it; nothing was found"


def main():
    if len(sys.argv) != 5 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    judge = Judge(*sys.argv[1:])
    judge.judge()
    sys.exit(1 if judge.mistakes else 0)


if __name__ == "__main__":
    orphans.end_with_judge(sys.argv[-1])
    main()
