#!/usr/bin/env python3
"""What fourteen epochs of MNIST reach, by seed and number of ranks, as PyTorch's MNIST example trains (Adadelta, its
rate times 0.7 each epoch, 64 samples a rank): ours and the same program in PyTorch (TORCH_BIN names its bin folder),
by 03_torchrun_env. Hours; a run that OUT has is not repeated, so it may be ended and started again. Run make first.
"""
import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RECIPE = ["--epochs", "14", "--dataset", "mnist", "--batch-size", "64", "--optimizer", "adadelta", "--threads", "1",
          "--device", "cpu", "--save-every", "0", "--log-interval", "200"]


def command_of(who, ranks):
    if who == "ddp.c":
        return ["03_torchrun_env/ddprun", "--standalone", "--nproc-per-node", ranks, "03_torchrun_env/train",
                "--lr-schedule", "step"]
    python = os.path.join(os.environ.get("TORCH_BIN", "/nowhere"), "python")
    if not os.path.exists(python):
        sys.exit("mnist_seeds.py: no PyTorch here: tests/against/torch/venv.sh gets it")
    return [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, "bench/mnist_seeds_torch.py"]


def measure(who, ranks, seed, data):
    """Runs one job. Returns its row, with an accuracy and a loss for each epoch."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*command_of(who, str(ranks)), *RECIPE, "--seed", str(seed), "--data-dir", data,
                               "--checkpoint-dir", folder], cwd=TOP, capture_output=True, text=True, check=False,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        sys.exit(f"mnist_seeds.py: {who}, {ranks} ranks, seed {seed}: status {done.returncode}: {done.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    tests = re.findall(r"^Test Epoch: \d+ Loss: ([\d.]+) Accuracy: ([\d.]+)%", done.stdout, flags=re.M)
    return {"who": who, "ranks": ranks, "seed": seed, "accuracy": [float(text) for _, text in tests],
            "loss": [float(text) for text, _ in tests],
            "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def draw(rows):
    """Prints a row for each program and number of ranks. Spreads are standard deviations over the seeds."""
    print("| ranks | by | seeds | after 1 epoch, % | 14 epochs, % | from, to | loss | CPU time, s |\n" + "| --- " * 8 + "|")
    for ranks, who in sorted({(row["ranks"], row["who"]) for row in rows}):
        runs = [row for row in rows if (row["ranks"], row["who"]) == (ranks, who)]
        first, last, loss = ([run[name][at] for run in runs] for name, at in (("accuracy", 0), ("accuracy", -1), ("loss", -1)))
        around = [f"{statistics.mean(some):.2f} ± {statistics.stdev(some):.2f}" if some[1:] else f"{some[0]:.2f}"
                  for some in (first, last)]
        print(f"| {ranks} | {who} | {len(runs)} | {around[0]} | {around[1]} | {min(last):.2f}, {max(last):.2f} | "
              f"{statistics.mean(loss):.4f} | {statistics.mean(run['cpu'] for run in runs):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--who", default="ddp.c,PyTorch", help="programs, with commas")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", default="data/mnist")
    parser.add_argument("--out", default="build/mnist_seeds.jsonl")
    args = parser.parse_args()
    out = Path(args.out)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    had = {(row["who"], row["ranks"], row["seed"]) for row in rows}
    for seed in range(args.seeds):
        for ranks in map(int, args.ranks.split(",")):
            for who in args.who.split(","):
                if (who, ranks, seed) not in had:
                    rows.append(measure(who, ranks, seed, args.data_dir))
                    with out.open("a", encoding="utf-8") as file:
                        print(json.dumps(rows[-1]), file=file)
    draw(rows)


if __name__ == "__main__":
    main()
