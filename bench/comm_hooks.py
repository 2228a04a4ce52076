#!/usr/bin/env python3
"""What communication hooks save: DDP, bf16 and PowerSGD on two ranks (docs/beyond_ddp.md).

Trains the CNN on the digits: the bytes that rank 0 sends in a step, how long the fastest step takes on simulated
networks, and the accuracy after some epochs. PowerSGD begins with the first step here; where the accuracy is measured,
after ten, as in the program.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import zero

RATES = ("300mbit", "1gbit", "3gbit")
HOOKS = "beyond/comm_hooks"
# name, program, rank of PowerSGD
KINDS = [("DDP", "02_multi_gpu_spawn/train", 0), ("bf16", f"{HOOKS}/train_bf16_hook", 0)] + [
    (f"PowerSGD {rank}", f"{HOOKS}/train_power_sgd", rank) for rank in (1, 2, 4)]


def build(program, rank, start, folder):
    """The program with docs/edits/measure.sed, which makes it count."""
    edits = [f"-e s/RANK 1 /RANK {rank} /", f"-e s/START_STEP 10/START_STEP {start}/"] if rank else []
    return zero.build(Path(f"{program}.c"), folder, *edits, name=f"{Path(program).name}_{rank}_{start}", script="measure")


def train(program, *options):
    done = subprocess.run([program, "--nproc", "2", "--threads", "1", "--device", "cpu", "--save-every", "0", *options],
                          cwd=program.parent, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{program} ends with status {done.returncode}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="of each measurement (20)")
    parser.add_argument("--epochs", type=int, default=3, help="before the accuracy is measured (3)")
    parser.add_argument("--rounds", type=int, default=1, help="repetitions, of which the fastest step counts (1)")
    given = parser.parse_args()
    sent, fastest, accuracy = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for round in range(given.rounds):
            for name, program, rank in KINDS:
                if round == 0:
                    output = train(build(program, rank, 10, Path(folder)), "--epochs", str(given.epochs))
                    accuracy[name] = re.findall(r"Accuracy: ([\d.]+%)", output)[-1]
                fast = build(program, rank, 0, Path(folder))
                for rate in RATES:
                    output = train(fast, "--max-steps", str(given.steps), "--batch-size", "16", "--simulate-network", rate)
                    numbers = re.search(r"rank 0 sent (\d+) bytes a step; a step took ([\d.]+) ms, the fastest ([\d.]+) ms", output)
                    sent[name], least = numbers[1], float(numbers[3])
                    fastest[name, rate] = min(least, fastest.get((name, rate), least))
    print(f"{'':12}{'bytes':>10}" + "".join(f"{rate:>11}" for rate in RATES) + f"{'accuracy':>10}")
    for name, _, _ in KINDS:
        times = "".join(f"{fastest[name, rate]:>8.1f} ms" for rate in RATES)
        print(f"{name:12}{sent[name]:>10}{times}{accuracy[name]:>10}")


if __name__ == "__main__":
    main()
