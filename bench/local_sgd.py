#!/usr/bin/env python3
"""Accuracy over bytes and over time on slow networks: DDP, its bf16 hook, local SGD, DiLoCo, streaming (docs/local_sgd.md).

Trains the CNN on two ranks, on the digits and on a part of MNIST (--data-dir, where data/get_mnist.sh puts it). What a run
learns, and the bytes that rank 0 sends, do not depend on the network, so one run gives both, epoch by epoch. The time of
a step is measured on each simulated network, five times; the median counts. In these runs the ranks sleep for the
processor time that a step of DDP took instead of computing: so other jobs on this machine hardly disturb the times.
time = steps * a step's time + the rounds that end with an epoch.

Writes build/local_sgd.json, a table, and build/local_sgd.png and .svg where there is gnuplot. --from FILE measures nothing,
and reads such a file; --out NAME writes NAME.json, NAME.png and NAME.svg.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import colours

import zero

TOP = Path(__file__).resolve().parent.parent
PERIOD, RANKS = 8, 2
RATES = {"0.1": "100mbit", "0.3": "300mbit", "1": "1gbit", "3": "3gbit"}  # Gbit/s
KINDS = {  # in the order of the table; the plots' linetypes
    "DDP": ("02_multi_gpu_spawn/train", 2),
    "DDP, bf16": ("beyond/comm_hooks/train_bf16_hook", 3),
    "local SGD": ("beyond/local_sgd/train_local_sgd", 4),
    "DiLoCo": ("beyond/local_sgd/train_diloco", 5),
    "streaming": ("beyond/local_sgd/train_streaming", 1),
}
SETS = {  # epochs, the accuracy to be reached, options; an epoch of 96 steps has whole rounds, one of 23 has not
    "digits": (8, 90, []),
    "MNIST": (6, 95, ["--dataset", "mnist", "--num-samples", "6144"]),
}
SLEEP = ["-e", "s|^    model_zero_grad(model);|    (void)batch;\\n    (void)optim;\\n    pretend_to_compute(model, SECONDS);|",
         "-e", "/^    model_forward(model, batch);/d", "-e", "/^    model_backward(model)/d", "-e", "/^    optim_step(optim);/d"]


def build(program, folder, seconds=None):
    """The program with docs/edits/rounds.sed; with `seconds`, it sleeps for so long instead of computing."""
    edits = ["-e", f"1i #define SECONDS {seconds:.6f}", *SLEEP] if seconds else []
    return zero.build(Path(f"{program}.c"), folder, *edits, name=f"{Path(program).name}{'_sleeps' if seconds else ''}", script="rounds")


def train(program, *options):
    done = subprocess.run([program, "--nproc", str(RANKS), "--threads", "1", "--device", "cpu", "--save-every", "0", *options],
                          cwd=program.parent, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{program} ends with status {done.returncode}: {done.stderr}")
    return done.stdout


def learn(program, folder, options, epochs):
    """[{steps, bytes, accuracy}] at the end of each epoch, and the processor's milliseconds of a step."""
    output = train(program, "--epochs", str(epochs), "--checkpoint-dir", str(folder), *options)
    epochs = re.findall(r"^epoch \d+: (\d+) bytes sent after (\d+) steps", output, flags=re.M)
    accuracies = re.findall(r"^Test .* Accuracy: ([\d.]+)%", output, flags=re.M)
    processor = float(re.findall(r", ([\d.]+) of the processor", output)[-1])
    return [{"steps": int(steps), "bytes": int(sent), "accuracy": float(accuracy)}
            for (sent, steps), accuracy in zip(epochs, accuracies)], processor


def time_steps(program, folder, rate):
    """The milliseconds of a step, the mean of two rounds, and of the end of an epoch that cuts a round short."""
    output = train(program, "--max-steps", str(3 * PERIOD + 4), "--epochs", "1", "--batch-size", "16", "--log-interval", "1000",
                 "--simulate-network", rate, "--checkpoint-dir", str(folder))  # 16 rows: an epoch has more steps than that
    end = re.findall(r"the end of the epoch took ([\d.]+) ms", output)
    return float(re.findall(r"a step took ([\d.]+) ms", output)[-1]), float(end[-1]) if end else 0.0


def learn_all(data, folder, data_dir):
    """Adds what each program learns, epoch by epoch, and the processor's time of a step."""
    data["epochs"], took = {}, []
    for kind, (program, _) in KINDS.items():
        built = build(program, folder / "programs")
        for set_name, (epochs, _, options) in SETS.items():
            rows, processor = learn(built, folder / "saved", options + (["--data-dir", str(data_dir)] if set_name == "MNIST" else []), epochs)
            data["epochs"].setdefault(set_name, {})[kind] = rows
            took += [processor] if kind == "DDP" else []
            print(f"{kind}, {set_name}: {rows[-1]}", file=sys.stderr, flush=True)
    data["compute_ms"] = round(statistics.median(took), 3)


def time_all(data, folder, repeats):
    """Adds the times of a step and of an epoch's end: [least, median, most] of this many runs, which take turns."""
    programs = {kind: build(program, folder / "programs", data["compute_ms"] / 1e3) for kind, (program, _) in KINDS.items()}
    times = {}
    for _ in range(repeats):
        for rate, option in RATES.items():
            for kind, program in programs.items():
                times.setdefault((kind, rate), []).append(time_steps(program, folder / "saved", option))
    data["repeats"] = repeats
    for i, name in enumerate(("step_ms", "end_ms")):
        data[name] = {kind: {rate: [round(f(pair[i] for pair in times[kind, rate]), 2) for f in (min, statistics.median, max)]
                             for rate in RATES} for kind in KINDS}
    data["load"] = round(os.getloadavg()[0], 1)


def measure(given):
    data = {"ranks": RANKS, "period": PERIOD, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "programs").mkdir()
        (folder / "config.yaml").symlink_to(TOP / "config.yaml")
        learn_all(data, folder, given.data_dir)
        time_all(data, folder, given.repeats)
    return data


def seconds(data, kind, rate, rows):
    """Of training up to the end of each epoch."""
    out, total, before = [], 0, 0
    for row in rows:
        steps = row["steps"] - before
        ends = kind == "streaming" or kind in ("local SGD", "DiLoCo") and steps % data["period"] != 0
        total += steps * data["step_ms"][kind][rate][1] + (data["end_ms"][kind][rate][1] if ends else 0)
        before = row["steps"]
        out.append(total / 1e3)
    return out


def formula(data, kind, rate):
    """Milliseconds of a step at this many Gbit/s: C computes, and all of the model is M on the way. The first bucket, of nearly
    all gradients, leaves after 15 / 27.3 of the computation (bench/rounds.h)."""
    first = data["epochs"]["digits"]["DDP"][0]
    compute, model = data["compute_ms"], first["bytes"] / first["steps"] * 8 / (rate * 1e6)
    return {"DDP": max(compute, compute * 15 / 27.3 + model), "DDP, bf16": max(compute, compute * 15 / 27.3 + model / 2),
            "local SGD": compute + model / data["period"], "DiLoCo": compute + model / data["period"],
            "streaming": max(compute, model / data["period"])}[kind]


def table(data):
    for set_name, (_, goal, _) in SETS.items():
        kinds = data["epochs"][set_name]
        last = next(iter(kinds.values()))
        print(f"{set_name}, {len(last)} epochs of {last[0]['steps']} steps       to {goal} %: epochs and MB, seconds at so many Gbit/s")
        print(f"{'':12}{'MB':>8}{'accuracy':>10}{'epochs':>10}{'MB':>8}" + "".join(f"{rate:>8}" for rate in RATES))
        for kind, rows in kinds.items():
            at = next((i for i, row in enumerate(rows) if row["accuracy"] >= goal), None)
            reached = "".join(f"{'-':>{width}}" for width in (10, 8, *[8] * len(RATES)))
            if at is not None:
                reached = f"{at + 1:>10}{rows[at]['bytes'] / 1e6:>8.1f}" + "".join(f"{seconds(data, kind, rate, rows)[at]:>8.2f}" for rate in RATES)
            print(f"{kind:12}{rows[-1]['bytes'] / 1e6:>8.1f}{rows[-1]['accuracy']:>8.2f} %{reached}")
        print()
    print(f"{'a step, ms, at':33}" + "".join(f"{rate:>8}" for rate in RATES))
    for kind, times in data["step_ms"].items():
        print(f"{kind:33}" + "".join(f"{median:>8.1f}" for _, median, _ in times.values()))
        print(f"{'':12}{'by the formula':21}" + "".join(f"{formula(data, kind, float(rate)):>8.1f}" for rate in RATES))


def write(data, path):
    """As JSON, an epoch or the times of a program in a line."""
    text = json.dumps(data, indent=1)
    for pattern in (r"\[[^][{}]*\]", r"\{[^{}]*\}"):
        text = re.sub(pattern, lambda inner: " ".join(inner[0].split()), text)
    path.write_text(text + "\n")


def end_labels(lines):
    """Names above the ends of lines, {name: [(x, y)]}. Those that end near each other share a place, the best line on top."""
    groups = []
    for x, y, name in sorted((*points[-1], name) for name, points in lines.items()):
        if groups and x < 2 * groups[-1][0][0]:
            groups[-1].append((x, y, name))
        else:
            groups.append([(x, y, name)])
    out = ""
    for group in groups:
        top = max(y for _, y, _ in group)
        middle = (min(x for x, _, _ in group) * max(x for x, _, _ in group)) ** 0.5
        for i, (_, _, name) in enumerate(sorted(group, key=lambda end: end[1])):
            out += f"set label '{name}' at {middle},{top} center offset 0,{0.8 + 0.95 * i} textcolor rgb text\n"
    return out


def draw(data, out):
    panels = []
    for row in ("bytes", *RATES):
        for set_name, kinds in data["epochs"].items():
            lines = {}
            for kind, rows in kinds.items():
                xs = [r["bytes"] / 1e6 for r in rows] if row == "bytes" else seconds(data, kind, row, rows)
                lines[kind] = list(zip(xs, [r["accuracy"] for r in rows]))
            plots = [f"'-' with linespoints lt {KINDS[kind][1]} ps 0.5 notitle" for kind in lines]
            points = "".join("".join(f"{x} {y}\n" for x, y in line) + "e\n" for line in lines.values())
            xs = [x for line in lines.values() for x, _ in line]
            words = "MB sent by a rank" if row == "bytes" else f"seconds at {row} Gbit/s"
            panels.append(f"unset label\nset title '{set_name}: accuracy, %, by {words}'\n{end_labels(lines)}"
                          f"set yrange [{'70:112' if set_name == 'digits' else '89:103'}]\nset ytics {'70,10' if set_name == 'digits' else '90,2'},100\nset xrange [{min(xs) / 1.5}:{max(xs) * 2}]\nplot {', '.join(plots)}\n{points}")
    for form, terminal in (("png", "pngcairo size 900,1500 font 'DejaVu Sans,10'"),
                           ("svg", "svg size 900,1500 font 'DejaVu Sans,12' background 'white'")):
        subprocess.run(["gnuplot"], text=True, check=True, input=f"""{colours.style()}
set terminal {terminal}
set output '{out}.{form}'
set multiplot layout {1 + len(RATES)},2
set grid
set logscale x
""" + "\n".join(panels) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", metavar="FILE", help="measure nothing: read this file")
    parser.add_argument("--out", default=str(TOP / "build/local_sgd"), help="the files' name without its end (build/local_sgd)")
    parser.add_argument("--repeats", type=int, default=5, help="of each time (5)")
    parser.add_argument("--data-dir", default=TOP / "data/mnist", type=Path, help="the folder of MNIST (data/mnist)")
    parser.add_argument("--draw", action="store_true", help="with --from: draw, too")
    given = parser.parse_args()
    data = json.loads(Path(given.source).read_text()) if given.source else measure(given)
    if not given.source:
        Path(given.out).parent.mkdir(exist_ok=True)
        write(data, Path(f"{given.out}.json"))
    table(data)
    if shutil.which("gnuplot") and (given.draw or not given.source):
        draw(data, given.out)


if __name__ == "__main__":
    main()
