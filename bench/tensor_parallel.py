#!/usr/bin/env python3
"""What a rank holds and sends with tensor parallelism, beside DDP and ZeRO-3, and beside formulas (docs/tensor_parallel.md).

Trains the mlp of eight equal layers with Adam for one step on four ranks: as one replica on each, as two replicas of two
ranks, and as one of four. BATCH is the number of rows in a step of all of them. Held: parameters, gradients, Adam's two
states and activations, at the most; sent: by each rank in a step. Exit status 1: something is off by more than 5 %.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import zero

RANKS, LAYERS, WIDTH = 4, zero.LAYERS, zero.WIDTH
WHOLE, TENSOR = "02_multi_gpu_spawn/train", "beyond/tensor_parallel/train_tensor_parallel"


def parameters(ranks):
    """Bytes of the parameters on each of the ranks that divide them: of the layer that is divided by rows the bias is whole."""
    return 4 * LAYERS // 2 * ((WIDTH * WIDTH + WIDTH) // ranks + WIDTH * WIDTH // ranks + WIDTH)


def activations(rows):
    """Of inputs, outputs and their gradients, and log_probs."""
    return 4 * rows * WIDTH * (1 + 2 * LAYERS + 1)


def ring(ranks, size):
    return 2 * (ranks - 1) / ranks * size


def sums(ranks, rows):
    """Bytes sent in the pairs: four outputs, and three gradients of inputs, since the rows themselves need none."""
    return ring(ranks, 4 * rows * WIDTH * (LAYERS // 2 + LAYERS // 2 - 1))


# name, program, more words for sed, ranks of a replica, held and sent by the formula for this many rows of a replica
KINDS = [
    ("DDP", WHOLE, [], 1, lambda rows: (4 * zero.P + activations(rows), ring(4, zero.P))),
    ("ZeRO-3", "beyond/zero/train_zero3", [], 1, lambda rows: (zero.P * zero.KINDS[4][2](4) + activations(rows), zero.P * zero.KINDS[4][3](4))),
    ("2 x 2", TENSOR, [], 2, lambda rows: (4 * parameters(2) + activations(rows), sums(2, rows) + ring(2, parameters(2)))),
    ("1 x 4", TENSOR, ["-f", "docs/edits/tensor_ranks_4.sed"], 4, lambda rows: (4 * parameters(4) + activations(rows), sums(4, rows))),
]


def measure(program, rows):
    """(bytes held at most, bytes sent in a step), of the rank with the most; each replica has this many rows in a step."""
    options = ["--nproc", str(RANKS), "--model", "mlp", "--optimizer", "adam", "--batch-size", str(rows), "--bucket-cap-mb", "1",
               "--max-steps", "1", "--threads", "1", "--device", "cpu", "--backend", "tcp"]
    done = subprocess.run([program, *options], cwd=program.parent, capture_output=True, text=True, timeout=300)
    found = [(int(held), int(sent)) for held, sent in re.findall(r"held (\d+) bytes at most and sent (\d+) bytes a step", done.stdout)]
    if done.returncode != 0 or len(found) != RANKS:
        sys.exit(f"{program.name} ends with status {done.returncode}: {done.stderr}")
    return [max(column) for column in zip(*found)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one kind, as DDP or '2 x 2'")
    parser.add_argument("batch", nargs="*", type=int, default=[64, 1024], help="rows of a step (64 and 1024)")
    args, worst = parser.parse_args(), 0
    print(f"MB; P = {zero.P / 1e6:.2f}     " + "".join(f"{n:>9}" for n in args.batch) + "  rows")
    with tempfile.TemporaryDirectory() as folder:
        for name, program, edits, ranks, formula in KINDS:
            if args.only not in (None, name):
                continue
            built = zero.build(Path(f"{program}.c"), Path(folder), *edits, name=name.replace(" ", ""))
            rows = [batch * ranks // RANKS for batch in args.batch]
            measured = [measure(built, n) for n in rows]
            for i, what in enumerate(("held", "sent")):
                values, due = [pair[i] for pair in measured], [formula(n)[i] for n in rows]
                worst = max([worst] + [abs(v / d - 1) for v, d in zip(values, due)])
                print(f"{name:<7}{what:<13}" + "".join(f"{v / 1e6:>9.2f}" for v in values))
                print(f"{'':<7}{'by formula':<13}" + "".join(f"{d / 1e6:>9.2f}" for d in due), flush=True)
    print(f"off by {100 * worst:.2f} % at most")
    return 1 if worst > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
