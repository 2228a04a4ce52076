#!/usr/bin/env python3
"""Usage: bench/zero_drift.py [--ranks 3] [--steps 1 10 20 30]      Why ZeRO-3 drifts from DDP (docs/zero.md).

A sum of floats depends on the order of its terms. In the ring each block of an array has an order of its own. DDP, ZeRO
and ZeRO-3 cut the same gradients into other blocks: at the bounds of buckets, of buckets that are padded, of layers.

The first table compares the CNN's mean gradients after one step: bit by bit with DDP's, those that lie in the same
block in both, and those that do not. Then how far the weights are from DDP's after some steps. Exit status 1: a
gradient differs whose block is the same.
"""
import argparse
import array
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SHORT = 32 * 1024 // 4  # numbers; DDP's all_reduce of so few is no ring (common/comm/tcp/backend_tcp.c)
# weight and bias of each layer, and of the weight: pixels, channels of a row, which the file has the other way round
LAYERS = [("conv1", 288, 32, 9, 1), ("conv2", 18432, 64, 9, 32), ("fc1", 1179648, 128, 144, 64), ("fc2", 1280, 10, 1, 1)]
OPTIONS = ["--threads", "1", "--device", "cpu", "--backend", "tcp", "--batch-size", "8", "--dropout", "off",
           "--save-every", "0"]
DDP = "02_multi_gpu_spawn/train"
CASES = [  # name, program, and may a bucket, or unit, have several layers?
    ("ZeRO-1", "beyond/zero/train_zero1", True), ("ZeRO-2", "beyond/zero/train_zero2", True),
    ("ZeRO-3", "beyond/zero/train_zero3", False),
]


def cut(sizes, cap):
    """Bounds of the buckets: from the end, the first closes at 1 MiB (Reducer's plan_buckets, ZeRO's cut_units)."""
    ends, limit, numel, at = [sum(sizes)], min(cap, 1.0), 0, sum(sizes)
    for size in reversed(sizes):
        numel, at = numel + size, at - size
        if at == 0 or numel * 4 >= limit * 2**20:
            ends, numel, limit = ends + [at], 0, cap
    return ends[::-1]


def ring(begin, end, ranks):
    """First element of each block of DDP's all_reduce: (element, block); of a short one on 3 ranks, block 1's order."""
    numel = end - begin
    if numel <= SHORT:
        return [(begin, 1 if ranks == 3 else "other")]
    share, more = divmod(numel, ranks)
    return [(begin + i * share + min(i, more), i) for i in range(ranks)]


def shares(begin, end, ranks):
    """Of ZeRO's reduce_scatter: equal shares, the last one padded."""
    share = -(-(end - begin) // ranks)
    return [(begin + i * share, i) for i in range(ranks) if i * share < end - begin]


def blocks(ends, ranks, kind):
    return [start for begin, end in zip(ends, ends[1:]) for start in kind(begin, end, ranks)]


def block_of(starts, element):
    low, high = 0, len(starts)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle][0] <= element else (low, middle)
    return starts[low][1]


def overlap(a, b, numel):
    """How many elements have the same block in both."""
    bounds = sorted({start for start, _ in a + b} | {numel})
    return sum(end - begin for begin, end in zip(bounds, bounds[1:]) if block_of(a, begin) == block_of(b, begin))


def tensors(path):
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:begin])
    return {name: data[begin + about["data_offsets"][0]:begin + about["data_offsets"][1]]
            for name, about in header.items() if name != "__metadata__"}


def flat(tensor, pixels, channels, i):
    """Where element i of a weight in the file lies in memory: within a row the channels come last."""
    row, rest = divmod(i, pixels * channels)
    channel, pixel = divmod(rest, pixels)
    return tensor + row * pixels * channels + pixel * channels + channel


def differing(ours, theirs):
    """The elements, counted as in memory, of which the mean gradients have different bits."""
    at, found = 0, []
    for name, weights, biases, pixels, channels in LAYERS:
        for kind, numel, shape in ("weight", weights, (pixels, channels)), ("bias", biases, (1, 1)):
            key = f"optimizer.{name}.{kind}.momentum_buffer"  # after the first step it is the gradient
            a, b = (array.array("I", file[key]) for file in (ours, theirs))
            found += [flat(at, *shape, i) for i in range(numel) if a[i] != b[i]] if a != b else []
            at += numel
    return found


def worst(ours, theirs):
    most = 0.0
    for name, *_ in LAYERS:
        for kind in "weight", "bias":
            a, b = (array.array("f", file[f"{name}.{kind}"]) for file in (ours, theirs))
            most = max(most, max(map(abs, map(float.__sub__, a, b)))) if a != b else most
    return most


def train(program, ranks, steps, *options):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, "--nproc", str(ranks), "--max-steps", str(steps), "--checkpoint-dir", folder,
                               *OPTIONS, *options], cwd=TOP, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            sys.exit(f"{program} on {ranks} ranks ends with status {done.returncode}: {done.stderr}")
        return tensors(Path(folder) / "cnn_digits.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="*", default=[1, 10, 20, 30])
    given = parser.parse_args()
    parameters = [size for _, weights, biases, *_ in LAYERS for size in (weights, biases)]
    layers = [weights + biases for _, weights, biases, *_ in LAYERS]
    numel, wrong = sum(layers), 0

    print(f"mean gradients of the CNN on {given.ranks} ranks, of {numel} numbers")
    print(f"{'':<8}{'same block':>12}{'differ':>8}{'other block':>13}{'differ':>8}")
    ddp = train(DDP, given.ranks, 1, "--momentum", "0.9")
    ddp_blocks = blocks(cut(parameters, 25), given.ranks, ring)
    for name, program, several in CASES:
        starts = blocks(cut(layers, 25 if several else 0), given.ranks, shares)
        same = overlap(ddp_blocks, starts, numel)
        found = differing(train(program, given.ranks, 1, "--momentum", "0.9"), ddp)
        bad = sum(block_of(starts, i) == block_of(ddp_blocks, i) for i in found)
        wrong += bad
        print(f"{name:<8}{same:>12}{bad:>8}{numel - same:>13}{len(found) - bad:>8}", flush=True)

    if given.steps:
        print("\nlargest difference of a weight from DDP's, after so many steps")
        print(f"{'':<15}" + "".join(f"{steps:>9}" for steps in given.steps))
    for optimizer in ("sgd", "adam") if given.steps else ():
        due = [train(DDP, given.ranks, steps, "--optimizer", optimizer) for steps in given.steps]
        for name, program, _ in CASES[1:]:
            row = [worst(train(program, given.ranks, steps, "--optimizer", optimizer), file)
                   for steps, file in zip(given.steps, due)]
            print(f"{name:<8}{optimizer:<7}" + "".join(f"{value:>9.1e}" if value else f"{0:>9}" for value in row), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
