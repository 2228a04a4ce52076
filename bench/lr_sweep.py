#!/usr/bin/env python3
"""What the learning rate may be, by the number of ranks (docs/learning_rate.md). Run make lr-sweep.

Trains the CNN for 5 epochs of 1,024 digits, 8 rows a rank, with SGD and with Adam, without and with a warm-up of two
epochs; prints the accuracy on the test set, and draws build/lr_sweep.png and .svg where there is gnuplot. One process
with the global batch stands for all ranks (docs/proof.md says why); an epoch on real ranks, 2 to 8, at the default
rate, is compared with it. One seed. Exit status 1: their losses are apart by more than 1 %.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import colours

TOP = Path(__file__).resolve().parent.parent
ROWS, BATCH, WARMUP_EPOCHS = 1024, 8, 2
OPTIMIZERS = {"sgd": 0.01, "adam": 0.001}  # and their default rate, from which the diagonal begins
RATES = [2 ** i for i in range(-1, 7)]  # in units of that
GROUNDS = ((89.5, "ok", "ok_on"), (79.5, "ok_wash", "text"), (49.5, "warn_wash", "text"), (0, "sunk", "muted"))  # from which accuracy


def train(program, epochs, optimizer, rate, world, warm, *options):
    """(loss, accuracy in percent) on the test set at the end; None: the weights became infinite."""
    steps = ROWS // (BATCH * world) * WARMUP_EPOCHS if warm else 0
    recipe = ["--optimizer", optimizer, "--lr", f"{rate * OPTIMIZERS[optimizer]:g}", "--warmup-steps", str(steps)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, str(epochs), "0", "--num-samples", str(ROWS), "--device", "cpu", "--threads",
                               "1", "--checkpoint-dir", folder, *recipe, *options], cwd=TOP, capture_output=True,
                              text=True, timeout=300)
    if done.returncode != 0 and "nan or infinite" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    return tuple(float(number) for number in
                 re.findall(r"^Test .* Loss: ([\d.]+) Accuracy: ([\d.]+)%", done.stdout, flags=re.M)[-1])


def sweep(epochs, optimizer, worlds, warm):
    """{(rate, world): accuracy}, printed as it is measured, the largest rate first as in the picture."""
    print(f"\n{optimizer}, {f'warm-up of {WARMUP_EPOCHS} epochs' if warm else 'no warm-up'}\n    rate" +
          "".join(f"{world:>6}" for world in worlds) + "  ranks; - infinite")
    table = {}
    for rate in reversed(RATES):
        print(f"{rate * OPTIMIZERS[optimizer]:8g}", end="")
        for world in worlds:
            end = train("01_single_gpu/train", epochs, optimizer, rate, world, warm, "--batch-size", str(BATCH * world))
            print(f"{f'{end[1]:.0f}' if end else '-':>6}", end="", flush=True)
            table[rate, world] = end[1] if end else None
        print()
    return table


def try_ranks(optimizer, worlds):
    """Trains an epoch on real ranks, and on one process; returns how far apart the losses are at most, in percent."""
    worst = 0
    for world in worlds:
        one = train("01_single_gpu/train", 1, optimizer, 1, world, False, "--batch-size", str(BATCH * world))
        ranks = train("02_multi_gpu_spawn/train", 1, optimizer, 1, world, False, "--nproc", str(world),
                      "--batch-size", str(BATCH))
        print(f"{optimizer}, rate {OPTIMIZERS[optimizer]:g}, loss after an epoch: {world} ranks {ranks[0]}, "
              f"one process {one[0]}")
        worst = max(worst, 100 * abs(ranks[0] / one[0] - 1))
    return worst


def panel(name, worlds, table):
    """gnuplot's lines for one heat map; the diagonal has frames."""
    optimizer, warm = name
    cells = [(x, y, world, rate) for y, rate in enumerate(RATES) for x, world in enumerate(worlds)]
    lines = ["unset label", "unset object",
             f"set title '{optimizer}, {f'warm-up of {WARMUP_EPOCHS} epochs' if warm else 'no warm-up'}'",
             "set xtics (" + ", ".join(f"'{world}' {x}" for x, world in enumerate(worlds)) + ")",
             "set ytics (" + ", ".join(f"'{rate * OPTIMIZERS[optimizer]:g}' {y}" for y, rate in enumerate(RATES)) + ")"]
    for x, y, world, rate in cells:
        value = table[rate, world]
        ground, ink = next((ground, ink) for least, ground, ink in GROUNDS if (value or 0) >= least)
        lines.append(f"set label '{'–' if value is None else f'{value:.0f}'}' at {x},{y} center front tc rgb {ink}")
        lines.append(f"set object rectangle center {x},{y} size 1,1 behind fs solid 1 noborder fc rgb {ground}")
        if rate == world:
            lines.append(f"set object rectangle center {x},{y} size 0.9,0.9 front fs empty border rgb text lw 3")
    return "\n".join(lines + ["plot -9 notitle"])


def draw(tables, worlds, out):
    panels = [panel(name, worlds, table) for name, table in tables.items()]
    for form, terminal in (("png", "pngcairo size 900,800 font 'DejaVu Sans,10'"),
                           ("svg", "svg size 900,800 font 'DejaVu Sans,13' background 'white'")):
        subprocess.run(["gnuplot"], text=True, check=True, input=f"""{colours.style()}
set terminal {terminal}
set output '{out}.{form}'
set multiplot layout 2,2 title 'accuracy, %; framed: the rates of the rule' textcolor rgb text
unset grid
set tics scale 0
set xrange [-0.5:{len(worlds) - 0.5}]
set yrange [-0.5:{len(RATES) - 0.5}]
set xlabel 'ranks, 8 rows each'
set ylabel 'learning rate'
""" + "\n".join(panels) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worlds", nargs="*", type=int, default=[1, 2, 4, 8, 16, 32, 64], help="1, 2, 4, ... 64")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()
    worlds = args.worlds
    if any(world not in RATES for world in worlds):
        parser.error(f"ranks are powers of 2, at most {RATES[-1]}")
    print(f"accuracy on the test set after {args.epochs} epochs, %")
    tables = {(optimizer, warm): sweep(args.epochs, optimizer, worlds, warm)
              for optimizer in OPTIMIZERS for warm in (False, True)}
    print()
    some = [world for world in worlds if 1 < world <= 8]
    worst = max(try_ranks(optimizer, some) for optimizer in OPTIMIZERS)
    print(f"apart by {worst:.3f} % at most")
    if shutil.which("gnuplot") and len(worlds) > 1:
        (TOP / "build").mkdir(exist_ok=True)
        draw(tables, worlds, TOP / "build/lr_sweep")
    return 1 if worst > 1 else 0


if __name__ == "__main__":
    sys.exit(main())
