#!/usr/bin/env python3
"""Usage: bench/gpu.py [--turns 5] [--steps 200] [--batch 64,512,4096] [--precision fp32,tf32,bf16] [--gpus 1,2,ALL]
                    [--python PYTHON] [--torch-device cuda|cpu] [--repeats 20] [--write]

The CNN's training step on GPUs, ours (gpu_step.c) and PyTorch's (gpu_step.py), which take turns on one GPU; its
time and its memory; then what share of the roofline each kernel reaches (gpu_kernels.c). Prints tables, writes all
figures to build/bench/gpu.json, and with --write the tables into bench/RESULTS.md. --python has PyTorch; without
one, ours are measured alone. --torch-device cpu and small numbers are for trying all this without a GPU."""
import argparse, json, os, re, statistics, subprocess, sys

from report import table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
OPTIONS = {"fp32": [], "tf32": ["--tf32", "on"], "bf16": ["--amp", "bf16"]}
OURS = {"our graph": ["--cuda-graph", "on"], "our calls": []}
THEIRS = ["compile+graph", "graph", "compile", "channels_last", "eager"]
MARKS = "<!-- bench gpu -->\n", "<!-- end of bench gpu -->\n"
missing = {}  # way: why


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", default="64,512,4096")
    parser.add_argument("--precision", default="fp32,tf32,bf16")
    parser.add_argument("--gpus", default="")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch-device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def launcher(gpus):
    """With several ranks each has OMP_NUM_THREADS cores, by the same launcher for both."""
    return [] if gpus == 1 else ["03_torchrun_env/ddprun", "--nproc-per-node", str(gpus), "--no-python"]


def answers(name, text):
    """The lines of JSON that hold a time; of others the reason is kept."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for one in found:
        if "missing" in one:
            missing[name] = one["missing"]
    return [one for one in found if "seconds" in one]


def run(name, command, timeout):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout)
    found = answers(name, done.stdout)
    if not found and name not in missing:
        missing[name] = (done.stderr.strip().split("\n")[-1] or "status %d" % done.returncode)[:200]
    return found


class PyTorch:
    """bench/gpu_step.py on one GPU, which stays: to start it and to compile takes longer than to measure."""

    def __init__(self, args):
        self.command = [args.python, os.path.join(ROOT, "bench", "gpu_step.py"), args.torch_device]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self.process.stdout.readline().strip()

    def turn(self, batch, precision, way, steps):
        if self.process.poll() is not None:
            return []
        try:
            self.process.stdin.write("%d %s %s %d\n" % (batch, precision, way, steps))
            self.process.stdin.flush()
            return answers(way, self.process.stdout.readline())
        except BrokenPipeError:
            return []

    def turns(self, gpus, batch, precision, way, steps, turns):
        """Of several ranks: all turns one after the other, for they cannot be asked."""
        request = [str(batch), precision, way, str(steps), str(turns)]
        return run("%s, %d GPUs" % (way, gpus), launcher(gpus) + self.command + request, 1800) if self.name else []

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


def our_turn(args, gpus, batch, precision, way):
    command = [os.path.join(BUILD, "bench", "gpu_step"), "--batch-size", str(batch), "--max-steps", str(args.steps),
               *OURS[way], *OPTIONS[precision]]
    return run(way, launcher(gpus) + command, 900)


def measure(args, pytorch, gpus, batch, precision):
    """By way: the median of the turns' seconds, all of them, and the most memory."""
    turns = {way: [] for way in [*OURS, *THEIRS]}
    for _ in range(args.turns):
        for way in OURS:
            turns[way] += our_turn(args, gpus, batch, precision, way)
        for way in THEIRS if gpus == 1 else []:
            turns[way] += pytorch.turn(batch, precision, way, args.steps)
    for way in THEIRS if gpus > 1 else []:
        turns[way] = pytorch.turns(gpus, batch, precision, way, args.steps, args.turns)
    return {way: {"seconds": statistics.median(one["seconds"] for one in found),
                  "turns": [one["seconds"] for one in found],
                  "memory": max(one["memory"] or 0 for one in found)} for way, found in turns.items() if found}


def fastest(by_way, ways):
    return min((way for way in ways if way in by_way), key=lambda way: by_way[way]["seconds"], default=None)


def time_cell(one):
    if one is None:
        return "-"
    turns = [1e3 * value for value in one["turns"]]
    return "%.3f (%.3f-%.3f)" % (1e3 * one["seconds"], min(turns), max(turns))


def row(gpus, batch, precision, by_way):
    ours, theirs = fastest(by_way, OURS), fastest(by_way, THEIRS)
    rate = "%.0f" % (gpus * batch / by_way[ours]["seconds"]) if ours else "-"
    ratio = "%.2fx" % (by_way[theirs]["seconds"] / by_way[ours]["seconds"]) if ours and theirs else "-"
    return [str(gpus), str(batch), precision, *(time_cell(by_way.get(way)) for way in [*OURS, *THEIRS]), rate, ratio]


def memory_row(gpus, batch, precision, by_way):
    cells = ("%.0f" % (1e-6 * by_way[way]["memory"]) if by_way.get(way, {}).get("memory") else "-"
             for way in [*OURS, *THEIRS])
    return [str(gpus), str(batch), precision, *cells]


def kernels(args, batch, precision):
    """What gpu_kernels measured, as figures, and as a table whose last column is the share of the roofline."""
    command = [os.path.join(BUILD, "bench", "gpu_kernels"), batch, precision, str(args.repeats), "5" if args.repeats > 1 else "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit("bench/gpu_kernels ended with status %d" % done.returncode)
    figures, rows, copy, product = [], [], 1, 1
    for line in done.stdout.splitlines():
        name, _, *numbers = line.split("\t")
        seconds, size, operations = map(float, numbers)
        figures.append({"kernel": name.strip(), "batch": int(batch), "precision": precision, "seconds": seconds,
                        "bytes": size, "operations": operations})
        if name == "peak copy":
            copy = size / seconds
        elif name == "peak product":
            product = operations / seconds
        else:
            by_memory, by_sums = size / copy, operations / product
            rows.append([name, "%.1f" % (1e6 * seconds), "%.0f" % (1e-9 * size / seconds),
                         "%.2f" % (1e-12 * operations / seconds), "memory" if by_memory > by_sums else "sums",
                         "%.0f %%" % (100 * max(by_memory, by_sums) / seconds)])
    text = ("Kernels at batch %s, %s. The roofline: a large copy moves %.3g TB/s, a large product makes %.3g TFLOP/s.\n\n" % (
        batch, precision, 1e-12 * copy, 1e-12 * product))
    return figures, text + table(["what", "us", "GB/s", "TFLOP/s", "bound by", "of the roofline"], rows)


def command_line(args):
    return " ".join("--%s %s" % (name, getattr(args, name)) for name in ["turns", "steps", "batch", "precision"])


def write(text):
    """Into the place of the last figures."""
    path = os.path.join(ROOT, "bench", "RESULTS.md")
    with open(path, encoding="utf-8") as file:
        old = file.read()
    begin, end = (old.find(mark) for mark in MARKS)
    if not 0 <= begin < end:
        sys.exit("bench/gpu.py: %s has no lines %sand %s" % (path, *MARKS))
    with open(path, "w", encoding="utf-8") as file:
        file.write(old[:begin + len(MARKS[0])] + "\n" + text + "\n\n" + old[end:])


def main():
    args = parse()
    machine = subprocess.run([os.path.join(BUILD, "tests", "against", "gpu", "machine")], stdout=subprocess.PIPE, text=True)
    if machine.returncode != 0:
        sys.exit("bench/gpu.py: " + machine.stdout.strip())
    num_gpus = len(re.findall("^GPU ", machine.stdout, re.M))
    sizes = sorted({1, min(2, num_gpus), num_gpus})
    sizes = [int(size) for size in args.gpus.split(",")] if args.gpus else sizes
    pytorch = PyTorch(args)
    facts = "; ".join([*machine.stdout.strip().split("\n"), pytorch.name or "no PyTorch (--python)"])
    if "stand-in" in facts:
        facts = "**No GPU: a stand-in, on which this was tried. Its times are a CPU's and say nothing.** " + facts
    print(facts, flush=True)
    results = []
    for gpus in sizes:
        for batch in map(int, args.batch.split(",")):
            for precision in args.precision.split(","):
                results.append((gpus, batch, precision, measure(args, pytorch, gpus, batch, precision)))
                print(" | ".join(row(*results[-1])), flush=True)
    pytorch.end()
    if not any(result[3] for result in results):
        sys.exit("bench/gpu.py: nothing could be measured: " + "; ".join("%s: %s" % one for one in missing.items()))

    figures, parts = [], []
    for precision in args.precision.split(","):
        found, text = kernels(args, args.batch.split(",")[-1], precision)
        figures += found
        parts.append(text)
    with open(os.path.join(BUILD, "bench", "gpu.json"), "w") as file:
        json.dump({"machine": facts, "steps": [{"gpus": gpus, "batch": batch, "precision": precision, "by_way": by_way}
                                               for gpus, batch, precision, by_way in results],
                   "missing": missing, "kernels": figures}, file, indent=1)
    head = ["GPUs", "batch", "precision", *OURS, *THEIRS]
    text = "\n\n".join([
        facts + ".",
        "Milliseconds of a training step, medians of %d turns of %d steps, in brackets the lowest and the highest; batch "
        "is that of a GPU. The ratio is PyTorch's fastest way to our fastest." % (args.turns, args.steps),
        table([*head, "samples/s, ours", "ratio"], [row(*result) for result in results]),
        "Memory of a GPU beyond CUDA's context, MB: ours what the process has taken, cuBLAS's workspace included; "
        "PyTorch's the peak of its allocated tensors.",
        table(head, [memory_row(*result) for result in results]),
        *parts, *("Not measured: %s: %s." % one for one in missing.items()),
        "    make bench-gpu PYTHON=... ARGS='%s'" % command_line(args)])
    print("\n" + text + "\n\nAll figures: build/bench/gpu.json")
    if args.write:
        write(text)


main()
