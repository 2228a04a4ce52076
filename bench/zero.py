#!/usr/bin/env python3
"""What a rank holds and sends: DataParallel, DDP and ZeRO 1 to 3, measured beside the formula (docs/zero.md).

Trains the mlp of eight equal layers with Adam for two steps, a row a rank. P is the size of the parameters, P / 8 that
of a layer, n the number of ranks. Buckets of 1 MiB are layers here. Held: every array of the model and its optimizer at
the most, activations too (0.3 % of P). Sent: by each rank in a step; of DataParallel, by device 0, in and out. Draws
build/zero.png and build/zero.svg where there is gnuplot. Exit status 1: something is off by more than 5 %.
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
LAYERS, WIDTH = 8, 784
P = 4 * LAYERS * WIDTH * (WIDTH + 1)  # bytes
OPTIONS = ["--model", "mlp", "--optimizer", "adam", "--batch-size", "1", "--bucket-cap-mb", "1", "--max-steps", "2",
           "--log-interval", "1000", "--threads", "1", "--device", "cpu", "--backend", "tcp"]

# name, program, held = parameters + gradients + Adam's two states + buffers, sent; in units of P
KINDS = [
    ("DP", "beyond/data_parallel/data_parallel", lambda n: 1 + 1 + 2, lambda n: 2 * (n - 1)),
    ("DDP", "02_multi_gpu_spawn/train", lambda n: 1 + 1 + 2, lambda n: 2 * (n - 1) / n),
    ("ZeRO-1", "beyond/zero/train_zero1", lambda n: 1 + 1 + 2 / n, lambda n: 2 * (n - 1) / n),
    ("ZeRO-2", "beyond/zero/train_zero2", lambda n: 1 + 1 / n + 2 / n + 2 / LAYERS, lambda n: 2 * (n - 1) / n),
    ("ZeRO-3", "beyond/zero/train_zero3", lambda n: 1 / n + 1 / n + 2 / n + 4 / LAYERS, lambda n: 3 * (n - 1) / n),
]


def build(original, folder, *edits, name=None, script="usage"):
    """The program of a source with docs/edits/usage.sed, which makes it count, or with another script, and with more words
    for sed. It has the source's name, or this one."""
    source = folder / (f"{name}.c" if name else original.name)
    with open(source, "w") as file:
        subprocess.run(["sed", "-f", f"docs/edits/{script}.sed", *edits, original], cwd=TOP, stdout=file, check=True)
    program = source.with_suffix("")
    done = subprocess.run(["make", "-s", f"TRY={program}", str(program)], cwd=TOP, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return program


def measure(program, ranks):
    """(bytes held at most, bytes sent in a step), of the rank with the most."""
    done = subprocess.run([program, "--nproc", str(ranks), *OPTIONS], cwd=program.parent, capture_output=True, text=True,
                          timeout=300)
    held = [int(n) for n in re.findall(r"held (\d+) bytes at most", done.stdout)]
    sent = [int(n) for n in re.findall(r"sent (?:and received )?(\d+) bytes a step", done.stdout)]
    if done.returncode != 0 or not held:
        sys.exit(f"{program.name} on {ranks} ranks ends with status {done.returncode}: {done.stderr}")
    return max(held), max(sent)


def draw(rows, ranks, out):
    """Two panels; a line's name stands at its end, and lines that end in one place share it."""
    held, sent = ({name: [pair[i] / P for pair in pairs] for name, pairs in rows.items()} for i in (0, 1))
    sent = {name: values for name, values in sent.items() if name != "DP"}  # 2 (n - 1) P, far above the others
    data, panels = "", []
    for i, (title, lines) in enumerate((("held by a rank, sizes of the model", held), ("sent by a rank in a step, sizes of the model", sent))):
        ends, plots = {}, []
        for kind, (name, values) in enumerate(lines.items(), 6 - len(lines)):
            data += f"$p{i}{kind} << END\n" + "".join(f"{n} {value}\n" for n, value in zip(ranks, values)) + "END\n"
            plots.append(f"$p{i}{kind} using 1:2 with linespoints lt {kind} notitle")
            ends.setdefault(round(values[-1], 1), []).append(name)
        labels = colours.labels([(ranks[-1], end, " = ".join(names), "text") for end, names in ends.items()], 0.24)
        panels.append(f"unset label\nset title '{title}'\n{labels}set yrange [0:{(4.4, 3)[i]}]\nset rmargin {(9, 22)[i]}\nplot " + ", ".join(plots))
    for form, terminal in (("png", "pngcairo size 900,400 font 'DejaVu Sans,10'"),
                           ("svg", "svg size 900,400 font 'DejaVu Sans,12' background 'white'")):
        script = f"""{colours.style()}
{data}set terminal {terminal}
set output '{out}.{form}'
set multiplot layout 1,2
set grid
set xlabel 'ranks'
set xrange [{ranks[0] - 0.2}:{ranks[-1]}]
set xtics 1
""" + "\n".join(panels) + "\n"
        subprocess.run(["gnuplot"], input=script, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", nargs="*", type=int, default=list(range(2, 9)), help="how many (2 to 8)")
    ranks = parser.parse_args().ranks
    rows, worst = {}, 0
    print(f"MB; P = {P / 1e6:.2f}" + "".join(f"{n:>8}" for n in ranks) + "  ranks")
    with tempfile.TemporaryDirectory() as folder:
        for name, program, held, sent in KINDS:
            built = build(Path(f"{program}.c"), Path(folder))
            rows[name] = [measure(built, n) for n in ranks]
            for i, (what, formula) in enumerate((("held", held), ("sent", sent))):
                values, due = [row[i] for row in rows[name]], [formula(n) * P for n in ranks]
                worst = max([worst] + [abs(v / d - 1) for v, d in zip(values, due)])
                print(f"{name:<7}{what:<7}" + "".join(f"{v / 1e6:>8.2f}" for v in values))
                print(f"{'':<7}formula" + "".join(f"{d / 1e6:>8.2f}" for d in due))
    print(f"off by {100 * worst:.2f} % at most")
    if shutil.which("gnuplot") and len(ranks) > 1:
        (TOP / "build").mkdir(exist_ok=True)
        draw(rows, ranks, TOP / "build/zero")
    return 1 if worst > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
