"""Whole runs of step 01: from process start to the first step, and to an accuracy on MNIST."""

import os

from suite import Contender, Goal, Suite

FULL = os.environ.get("BENCH_FULL") == "1"  # PyTorch trains too, for minutes
MNIST = next((folder for folder in (os.environ.get("MNIST", "data/mnist"), "../shared/data/mnist")
              if os.path.exists(f"{folder}/train-images-idx3-ubyte.gz")), None)
PERCENTS = "98.5,99"


def milestones(name, until, *command):
    return ["python3", "bench/milestones.py", name, until, *command]


def ours(dataset, *options):
    return ["01_single_gpu/train", "--device", "cpu", "--dataset", dataset, "--data-dir", str(MNIST), "--threads", "2",
            "--save-every", "0", "--checkpoint-dir", "{folder}", *options]


def pytorch(dataset, *options):
    return ["{python}", "bench/train_torch.py", dataset, "--data-dir", str(MNIST), "--threads", "2", *options]


def start(name, dataset):
    first = ["--max-steps", "1"]
    return Suite(
        name=f"start-{dataset}", title=f"From process start to the first step: {name}",
        contenders=[Contender("ddp.c", milestones(name, "start", *ours(dataset, *first))),
                    Contender("PyTorch", milestones(name, "start", *pytorch(dataset, *first)), needs=["{python}"])],
        goals=[Goal(f"{name}, first step", limit=0.1), Goal(f"{name}, peak memory", limit=60)]
        if dataset == "digits" else [],
        note="The program and its files are in the page cache. Until the line with the first loss; memory: the most "
        "the process ever had resident, through one step, the test and the end.", turns=3, seconds=20)


def accuracy():
    train = pytorch("mnist", "--epochs", "8") if FULL else ["computed", *pytorch("mnist", "--max-steps", "61")]
    return Suite(
        name="accuracy", title="Time to an accuracy on MNIST",
        contenders=[Contender("ddp.c", milestones("MNIST", PERCENTS, *ours("mnist", "--epochs", "8"))),
                    Contender("PyTorch" if FULL else "PyTorch (computed)", milestones("MNIST", PERCENTS, *train),
                              needs=["{python}"])],
        note="01, batch 32, 2 threads, its defaults; from process start, the tests after each epoch included. " +
        ("PyTorch draws other dropout masks." if FULL else
         "Computed: PyTorch's time for as many steps and tests as ours took, from the time of 50 of its steps and one "
         "test. (Without dropout the losses are equal step by step: make check-torch. BENCH_FULL=1 really trains it.)"),
        turns=1, seconds=90, timeout=3600 if FULL else 300)


SUITES = [start("digits", "digits")] + ([start("MNIST", "mnist"), accuracy()] if MNIST else [])
