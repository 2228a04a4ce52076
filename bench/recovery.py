#!/usr/bin/env python3
"""Usage: bench/recovery.py [CASE ...]      (make 05 first)

Breaks a run of step 05 on two ranks and says how long it takes until that is noticed, and until the
next step of the training is done. The median of three times each, and all of them; at the end how
many times as long as the fastest case each takes until it trains again. torchrun_restarted, PyTorch's
twin of step 05 under its own launcher, needs torchrun in $TORCH_BIN or in PATH."""
import os
import queue
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DDPRUN, TRAIN = "05_fault_tolerance/ddprun", "05_fault_tolerance/train"
TORCHRUN = shutil.which("torchrun", path=f"{os.environ.get('TORCH_BIN', '')}:{os.environ['PATH']}")
TIMEOUT, TURNS = 120, 3
STEP = r"^Train Epoch"  # --log-interval 1: a line for each


class Job:
    """One launcher with its ranks: what it prints, with the time at which it came."""

    LAUNCHER = DDPRUN

    def __init__(self, folder, *options, launcher=(), ranks=2, program=TRAIN):
        command = [self.LAUNCHER, "--nproc-per-node", str(ranks), *launcher, program, "--threads", "1", "--epochs", "10000",
                   "--log-interval", "1", "--save-every", "0", "--save-every-steps", "20",
                   "--checkpoint-dir", folder, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), line))

    def until(self, pattern, since=0.0):
        """When the first line after `since` came that fits."""
        while True:
            at, line = self.lines.get(timeout=TIMEOUT)
            if at >= since and re.search(pattern, line):
                return at

    def train_a_while(self, steps=50):
        for _ in range(steps):
            self.until(STEP)

    def ranks(self):
        """The processes of its ranks, in the order in which they were started."""
        pids = subprocess.run(["pgrep", "-x", "train|train_reconfigu", "--parent", str(self.process.pid)],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        return [int(pid) for pid in pids.split()]

    def end(self):
        self.process.terminate()
        self.process.wait(TIMEOUT)


class SurvivingJob(Job):
    """One whose ranks go on without a restart."""

    def __init__(self, folder, *options):
        os.environ["DDP_RECONFIGURE"] = "1"
        super().__init__(folder, *options, launcher=("--max-restarts", "9"), program=TRAIN + "_reconfigure")
        del os.environ["DDP_RECONFIGURE"]


class TorchJob(Job):
    """The twin in PyTorch."""

    LAUNCHER = TORCHRUN

    def __init__(self, folder):
        super().__init__(folder, "--device", "cpu", launcher=("--standalone", "--max-restarts", "9"), program=TRAIN + ".py")

    def ranks(self):
        found = {}
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as children:
            for pid in children.read().split():
                with open(f"/proc/{pid}/environ", encoding="utf-8") as environ:
                    found |= {int(line[5:]): int(pid) for line in environ.read().split("\0") if line.startswith("RANK=")}
        return [found[rank] for rank in sorted(found)]


def strike(pid, number):
    os.kill(pid, number)
    return time.monotonic()


def is_there(pid):
    """Zombies are not, since their parent may reap them later."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def all_gone(pids):
    while any(is_there(pid) for pid in pids):
        time.sleep(0.002)
    return time.monotonic()


def signalled(job, number, noticed, resumed):
    """Rank 1 gets a signal: how long until the others notice it, and until the next step."""
    job.train_a_while()
    struck = strike(job.ranks()[1], number)
    seen = job.until(noticed)
    back = job.until(STEP, job.until(resumed))
    job.end()
    return seen - struck, back - struck


def restarted(folder, number, noticed, *options):
    return signalled(Job(folder, *options, launcher=("--max-restarts", "1")), number, noticed, "resumes from")


def rank_killed(folder):
    return restarted(folder, signal.SIGKILL, "rank 1 is gone")


def rank_stopped(folder):
    return restarted(folder, signal.SIGSTOP, "rank 1 is missing", "--timeout", "2")


def survived(folder, number, noticed, *options):
    return signalled(SurvivingJob(folder, *options), number, noticed, "generation 2 goes on")


def rank_replaced(folder):
    return survived(folder, signal.SIGKILL, "rank 1 is gone")


def stopped_replaced(folder):
    return survived(folder, signal.SIGSTOP, "rank 1 is missing", "--timeout", "2")


def torchrun_restarted(folder):
    return signalled(TorchJob(folder), signal.SIGKILL, "closing signal|exitcode: -9", "resumes from")


def launcher_killed(folder):
    job = Job(folder)
    job.train_a_while()
    ranks = job.ranks()
    struck = strike(job.process.pid, signal.SIGKILL)
    seen = all_gone(ranks)
    job.process.wait()
    again = time.monotonic()
    job = Job(folder)
    back = job.until(STEP)
    job.end()
    return seen - struck, back - again


def told_to_stop(folder):
    job = Job(folder)
    job.train_a_while()
    struck = strike(job.ranks()[1], signal.SIGUSR1)
    assert job.process.wait(TIMEOUT) == 75
    seen = again = time.monotonic()
    job = Job(folder)
    back = job.until(STEP)
    job.end()
    return seen - struck, back - again


def snapshot_torn(folder):
    job = Job(folder, "--max-steps", "65")
    job.process.wait(TIMEOUT)
    os.remove(os.path.join(folder, "cnn_digits.safetensors"))
    os.truncate(os.path.join(folder, "snapshot_e2_s60.safetensors"), 4000000)
    begun = time.monotonic()
    job = Job(folder)
    seen = job.until("snapshot_e2_s60.safetensors")
    back = job.until(STEP, job.until("resumes from .*s40"))
    job.end()
    return seen - begun, back - begun


def host_killed(folder):
    """Of two nodes that may come and go, the one where they meet: without it the other ends."""
    host, other = elastic_nodes(folder)
    ranks = host.ranks() + other.ranks()
    struck = strike(host.process.pid, signal.SIGKILL)
    assert other.process.wait(TIMEOUT) == 1
    seen = time.monotonic()
    host.process.wait()
    all_gone(ranks)
    return (seen - struck,)


def elastic_nodes(folder):
    elastic = ("--nnodes", "1:2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-conf", "last_call_timeout=1")
    host = Job(folder, "--global-batch-size", "64", launcher=elastic, ranks=1)
    host.train_a_while(1)  # alone, until the other one comes
    other = Job(folder, "--global-batch-size", "64", launcher=elastic, ranks=1)
    host.until("rank 0/2")
    host.train_a_while()
    return host, other


def node_lost(folder, number):
    host, other = elastic_nodes(folder)
    ranks = other.ranks()
    struck = strike(other.process.pid, number)
    seen = host.until("node 1 has not been heard of")
    back = host.until(STEP, host.until("resumes from"))
    host.end()
    other.process.kill()
    other.process.wait()
    all_gone(ranks)
    return seen - struck, back - struck


def agent_killed(folder):
    return node_lost(folder, signal.SIGKILL)


def agent_stopped(folder):
    return node_lost(folder, signal.SIGSTOP)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


CASES = [rank_killed, rank_stopped, rank_replaced, stopped_replaced, *([torchrun_restarted] if TORCHRUN else []), launcher_killed, agent_killed, agent_stopped, host_killed, told_to_stop, snapshot_torn]


def main():
    chosen = [case for case in CASES if case.__name__ in sys.argv[1:]] or CASES
    medians = {}
    for case in chosen:
        times = []
        for _ in range(TURNS):
            with tempfile.TemporaryDirectory() as folder:
                times.append(case(folder))
        for what, column in zip(("noticed", "trains again"), zip(*times)):
            each = ", ".join(f"{seconds:.2f}" for seconds in sorted(column))
            print(f"{case.__name__:18} {what:13} {statistics.median(column):6.2f} s   ({each})", flush=True)
            medians[case.__name__] = statistics.median(column)
    fastest = min(medians, key=medians.get)
    print(f"as a multiple of {fastest}: " + ", ".join(f"{name} {seconds / medians[fastest]:.1f}" for name, seconds in medians.items()))


if __name__ == "__main__":
    sys.exit(main())
