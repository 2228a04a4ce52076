"""Runs a program of a step on simulated nodes, with journals, and ends the processes that it leaves."""
import os
import random
import signal
import struct
import subprocess
import time
from pathlib import Path

import journal
import orphans
import witness

TOP = Path.cwd()  # the top of the tree
SECONDS = int(os.environ.get("LAB_SECONDS", 60))  # most that a program may take
ROWS, TEST_ROWS = 8001, 53  # no number of ranks divides them
SAMPLES, BATCH, RANKS = 203, 16, 3  # rows to train on, rows of a batch, ranks in step 02
SEED_OF_IMAGES, ADDRESS = 0, "127.0.0.2"  # who writes "localhost" does not meet the others
OPTIONS = ["--dataset", "mnist", "--num-samples", str(SAMPLES), "--batch-size", str(BATCH), "--device", "cpu", "--threads", "1",
           "--log-interval", "3", "--save-every", "1", "--timeout", str(SECONDS // 4)]


def make_data(folder):
    """Four files like MNIST's, of random images: large enough that a copy takes a moment."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(SEED_OF_IMAGES)
    for name, rows in ("train", ROWS), ("t10k", TEST_ROWS):
        images = struct.pack(">IIII", 0x803, rows, 28, 28) + dice.randbytes(rows * 28 * 28)
        labels = struct.pack(">II", 0x801, rows) + bytes(dice.randrange(10) for _ in range(rows))
        (folder / f"{name}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(labels)


class Run:
    """A run of a program. All that it writes lies in its folder."""

    def __init__(self, step, program, folder, *options, saved=None):
        self.folder, self.saved = Path(folder), Path(saved or folder) / "saved"
        self.world_size = 1 if step == "01" else RANKS if step.startswith("02") else 2 if step.endswith(".sh") else 4
        self.folder.mkdir(parents=True)
        data = self.folder.parent / "data"
        if not data.exists():
            make_data(data)
        options = (*OPTIONS[:-2], *options) if step == "01" else (*OPTIONS, *options)  # without --timeout
        command = [program, "--data-dir", data, "--checkpoint-dir", self.saved, *options]
        if step == "02a":  # the same batches, if each rank knows how many ranks there are
            at = command.index("--batch-size")
            command[at:at + 2] = ["--global-batch-size", str(BATCH * RANKS)]
        nodes = [TOP / "04_slurm_multinode/nodes_here.sh", "2", "2"]
        if step.startswith("02"):
            command += ["--nproc", str(RANKS)] if "--nproc" not in options else []
        elif step == "03":
            command = nodes + command
        elif step != "01" and not step.endswith(".sh"):  # a script starts two ranks by itself
            command = nodes + [TOP / "teach/lab/as_srun.sh", self.folder / "disks"] + command
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DDP_")}
        environment.update(DDP_JOURNAL=str(self.folder / "journal"), OMP_NUM_THREADS="1", LAUNCHER="ddprun", NODES_HERE_ADDR=ADDRESS)
        with witness.fresh(self.folder / "out") as out, witness.fresh(self.folder / "err") as err:
            self.process = subprocess.Popen([str(word) for word in command], cwd=TOP, env=environment, stdout=out,
                                            stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        self.begin = time.monotonic()

    def wait(self, seconds=None):
        """Waits until the program ends, and reads its files."""
        return self.end(seconds).look()

    def end(self, seconds=None):
        """Waits until the program ends. Sets status (None: it took too long), and left: the processes that outlive it."""
        try:
            self.status = self.process.wait(seconds or self.begin + SECONDS - time.monotonic())
        except subprocess.TimeoutExpired:
            self.status = None
        deadline = time.monotonic() + (2 if self.status is not None else 0)
        at_end, self.left = self.at_end(), self.processes()
        while self.left and time.monotonic() < deadline:
            time.sleep(0.05)
            self.left = self.processes()
        for pid in self.left:
            self.send(pid, signal.SIGKILL)
        if self.status is not None:
            self.left += self.at_end() - at_end  # these came to their end after the program had
        self.process.wait()
        with witness.fresh(self.folder / "status") as file:
            file.write(str(self.status))
        return self

    def at_end(self):
        """The journals of ranks that came to their end."""
        return {path for path in self.folder.glob("journal/*.txt") if "\nend" in path.read_text()}

    def look(self):
        """Reads the run's files from its folder."""
        self.journals = journal.read(self.folder / "journal")
        self.out, self.err = ((self.folder / name).read_text(errors="replace") for name in ("out", "err"))
        return self

    @classmethod
    def again(cls, folder):
        """An earlier run, from its folder; or None."""
        if not (Path(folder) / "status").exists():
            return None
        run = cls.__new__(cls)
        run.folder, run.saved, run.left = Path(folder), Path(folder) / "saved", []
        run.world_size = len(list(run.folder.glob("journal/*.txt")))
        run.status = int((run.folder / "status").read_text())
        return run.look()

    def processes(self):
        """The processes that have this run's environment."""
        return orphans.processes("DDP_JOURNAL", self.folder / "journal")

    def reach(self, step):
        """Waits until all ranks have done this many steps, or the program ends; did they?"""
        paths = [self.folder / f"journal/rank{r}.txt" for r in range(self.world_size)]
        while self.process.poll() is None and time.monotonic() < self.begin + SECONDS:
            if all(path.exists() and f"\nstep {step} " in path.read_text() for path in paths):
                return True
            time.sleep(0.01)
        return False

    def signal_at(self, step, rank, number):
        """Sends a signal to a rank as soon as all ranks have done this many steps, unless the program ends before."""
        if self.reach(step):
            self.send(journal.read(self.folder / "journal")[rank][0].pid, number)
        return self

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def files(self, folder):
        return sorted(path.name for path in folder.glob("*"))
