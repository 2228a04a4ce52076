#!/usr/bin/env python3
"""What recomputation saves, and what it costs: held memory and processor time beside formulas (docs/beyond_ddp.md).

Trains the mlp of eight equal layers on one rank with segments of 1, 2, 4 and 8 layers, beside step 02's train. Held: every
array of the model, the optimizer and the activations, at the most. Outputs: those of the layers alone, train's less what
is saved. Time: processor time of the steps from the second on, the median of the ratios of runs in turn; the formula
counts products of matrices, 23 in train. Exit status 1: memory is off by more than 5 %.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import zero

LAYERS, WIDTH, P = zero.LAYERS, zero.WIDTH, zero.P
WHOLE, ASIDE = "02_multi_gpu_spawn/train", "beyond/recompute/train_recompute"
PRODUCTS = 3 * LAYERS - 1  # forward, of the weights, and of the inputs, which the first layer does not need


def buffers(k):
    """Outputs that are held: one a segment, and those inside one. 0: all, as train does."""
    return LAYERS if k == 0 else -(-LAYERS // k) + k - 1


def again(k):
    """Layers computed again: those inside all segments but the last, whose outputs are still there."""
    return 0 if k == 0 else (-(-LAYERS // k) - 1) * (k - 1)


def held(k, rows):
    """Parameters, gradients, momentum; inputs, gradients of the outputs, log_probs; the outputs."""
    return 3 * P + 4 * rows * WIDTH * (1 + LAYERS + 1 + buffers(k))


def build(k, folder):
    """The program with segments of k layers, which counts."""
    return zero.build(Path(f"{ASIDE if k else WHOLE}.c"), folder, "-e", f"s/^#define SEGMENT_LAYERS [0-9]*/#define SEGMENT_LAYERS {k}/",
                      name=f"segments_{k}")


def run(program, rows, steps):
    """(bytes held at most, seconds of processor time)"""
    options = ["--nproc", "1", "--model", "mlp", "--batch-size", str(rows), "--max-steps", str(steps), "--epochs", "1",
               "--threads", "1", "--device", "cpu", "--backend", "tcp"]
    process = subprocess.Popen([program, *options], cwd=program.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r"held (\d+) bytes at most", output)
    if process.returncode != 0 or found is None:
        sys.exit(f"{program.name} ends with status {process.returncode}: {output}")
    return int(found[1]), usage.ru_utime + usage.ru_stime


def times(programs, repeats, rows=128):
    """The ratios to the first program's time, of runs in turn: least, median, most."""
    ratios = {k: [] for k in programs}
    steps = 1437 // rows  # of an epoch of the digits
    for _ in range(repeats):
        seconds = {k: run(program, rows, steps)[1] - run(program, rows, 1)[1] for k, program in programs.items()}
        for k in programs:
            ratios[k].append(seconds[k] / seconds[0])
    return {k: (min(values), statistics.median(values), max(values)) for k, values in ratios.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1024, help="rows of a step whose memory is measured (1024); for time there are 128")
    parser.add_argument("--repeats", type=int, default=15, help="runs of each program for time (15); 0: memory only")
    args, worst = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as folder:
        programs = {k: build(k, Path(folder)) for k in (0, 1, 2, 4, 8)}
        ratios = times(programs, args.repeats) if args.repeats > 0 else {}
        whole = run(programs[0], args.rows, 1)[0]
        print("MB               held   formula   outputs   formula" + ("      time   formula   runs" if ratios else ""))
        for k, program in programs.items():
            size, due = run(program, args.rows, 1)[0], held(k, args.rows)
            all_outputs, outputs = 4 * args.rows * WIDTH * LAYERS, 4 * args.rows * WIDTH * buffers(k)
            kept = all_outputs - (whole - size)
            worst = max(worst, abs(size / due - 1), abs(kept / outputs - 1))
            print(f"{f'segments of {k}' if k else 'train':<14}{size / 1e6:>7.2f}{due / 1e6:>10.2f}{kept / 1e6:>10.2f}{outputs / 1e6:>10.2f}"
                  + (f"{ratios[k][1]:>10.2f}{1 + again(k) / PRODUCTS:>10.2f}   {ratios[k][0]:.2f} to {ratios[k][2]:.2f}" if ratios else ""))
    print(f"memory off by {100 * worst:.2f} % at most")
    return 1 if worst > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
