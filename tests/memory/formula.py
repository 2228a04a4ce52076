#!/usr/bin/env python3
"""Usage: tests/memory/formula.py [MNIST folder]      Holds the formula and the table of docs/beyond_ddp.md to real runs.

Each row of the table is computed from the shapes in a checkpoint, and run: the peak of the process may be
10 % off, or 1 MB where that is more. Prints both in MB, and exits 1 where one is further off, or is not what
the table says. The program itself is what it takes to print its options, so that no waste at work hides in it,
and a little for the pages of code that are touched at work.
"""
import functools
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

PEAK = [os.environ.get("BUILD", "build") + "/tests/memory/peak"]
RANKS = ["03_torchrun_env/ddprun", "--nproc-per-node"]
ROWS = {"random": (2048, 0), "digits": (1437, 360), "mnist": (60000, 10000)}
STATES = {"sgd": 0, "adam": 2, "adamw": 2, "adadelta": 2}
WORKING = 700_000  # bytes of code and libraries that --help does not touch
CHUNKS = 16  # parts of a batch whose gradients are summed up by themselves
RINGS = 2 << 20  # bytes that two ranks of one machine share, if they send each other more than short messages


def peaks(options, ranks=1):
    """The most memory that each rank had, in bytes; options last."""
    with tempfile.TemporaryDirectory() as folder:
        program = ["03_torchrun_env/train"] if ranks > 1 else ["01_single_gpu/train"]
        launcher = RANKS + [str(ranks)] if ranks > 1 else []
        run = subprocess.run(launcher + PEAK + program + options + ["--checkpoint-dir", folder],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
        found = [1e6 * float(mb) for mb in re.findall(r"peak: ([\d.]+) MB", run.stderr)]
        if run.returncode != 0 or len(found) != ranks:
            sys.exit(f"{' '.join(options)}: {run.stderr}")
        return found


@functools.cache
def shapes(model):
    """Of the parameters, as a checkpoint lists them: name -> shape."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["01_single_gpu/train", "--model", model, "--epochs", "0", "--checkpoint-dir", folder],
                       check=True, stdout=subprocess.DEVNULL)
        with open(folder + "/epoch_0.safetensors", "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name: entry["shape"] for name, entry in header.items()
            if name != "__metadata__" and not name.startswith("optimizer.")}


def numel(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def sample_bytes(weights):
    """What one image or row of a batch takes: inputs, outputs and their gradients, the places of the maxima."""
    if len(weights) == 1:
        return 4 * (20 + 2 + 1 + 2)
    side, total, floats = 28, 0, 28 * 28
    for i, shape in enumerate(weights):
        outputs = shape[0]
        if len(shape) == 4:  # a convolution; the last of them is pooled
            side -= shape[2] - 1
            pooled = i + 1 < len(weights) and len(weights[i + 1]) == 2
            side //= 2 if pooled else 1
            outputs *= side * side
            total += outputs if pooled else 0  # a byte for the place of each maximum
        floats += 2 * outputs
    return total + 4 * (floats + weights[-1][0] + 2)  # log-probabilities, label and target


def held(options, rank, ranks):
    """What a rank holds at its peak, in bytes, besides the program itself."""
    named = dict(zip(options[::2], options[1::2]))
    model = named.get("--model", "cnn")
    dataset = named.get("--dataset", "digits" if model == "cnn" else "random")
    shape = shapes(model)
    weights = [s for name, s in shape.items() if name.endswith("weight")]
    params = 4 * sum(map(numel, shape.values()))
    momentum = float(named.get("--momentum", 0.9 if model == "cnn" else 0))
    optimizer = named.get("--optimizer", "sgd")
    states = STATES[optimizer] + (optimizer == "sgd" and momentum > 0)
    train, test = ROWS[dataset]
    features = 20 if model == "linear" else 784
    data = (train + test) * (features * (1 if dataset == "mnist" else 4) + 4) + 8 * (train + test)
    convolutions = [s for s in weights if len(s) == 4]
    scratch = 4 * CHUNKS * max((s[0] * (numel(s[1:]) + 1) for s in convolutions), default=0)
    saved = (1 + states) * params if rank == 0 else 0
    return (data + (2 + states) * params + saved + int(named.get("--batch-size", 32)) * sample_bytes(weights)
            + scratch + RINGS * min(ranks - 1, 2))


def main():
    mnist = sys.argv[1:]
    program = max(peaks(["--help"])[0] for _ in range(3)) + WORKING  # it varies by up to 1 MB
    print(f"the program itself: {program / 1e6:.1f} MB")
    wrong = 0
    for line in open("docs/beyond_ddp.md"):
        row = re.match(r"\| `(--.*)` \| (\d) \| ([\d.]+) \| [\d.]+ \|$", line)
        if row is None:
            continue
        options, ranks, table = row[1].split(), int(row[2]), float(row[3])
        if "mnist" in options:
            if not mnist:
                print(f"{row[1]}: skipped, there is no MNIST")
                continue
            options += ["--data-dir", mnist[0]]
        formula = [held(options, rank, ranks) + program for rank in range(ranks)]
        quoted = held(options, 0, ranks) / 1e6 + 5
        measured = peaks(options + ["--device", "cpu", "--max-steps", "3"], ranks)
        pairs = list(zip(sorted(measured, reverse=True), formula))
        off = max(abs(m - f) / f for m, f in pairs)
        bad = any(abs(m - f) > max(0.10 * f, 1e6) for m, f in pairs) or abs(quoted - table) > 0.051
        wrong += bad
        print(f"{row[1]}, {ranks} ranks: formula {formula[0] / 1e6:.1f} MB (in the table, with 5 MB for the program, "
              f"{table}: {quoted:.1f}), measured {' and '.join(f'{m / 1e6:.1f}' for m, _ in pairs)}, "
              f"{100 * off:.1f} % off{': WRONG' if bad else ''}")
    sys.exit(wrong > 0)


main()
