#!/usr/bin/env python3
"""Usage: bench/gpu.py [--quick|--full] [--turns 2] [--steps 100] [--batch 512] [--precision fp32,tf32,bf16] [--gpus 1,2]
                    [--ways compile,graph,eager] [--minutes 8] [--python PYTHON] [--torch-device cuda|cpu]
                    [--repeats 20] [--write]

The CNN's training step on GPUs, ours (gpu_step.c) and PyTorch's (gpu_step.py), which take turns on one GPU; its
time and its memory; ours also with --conv cudnn, and with several ranks with --nccl-register on; then what share of the roofline each kernel reaches (gpu_kernels.c). It ends within
--minutes and names what it left out; --full measures all batches, precisions, ways and numbers of GPUs. Each figure is
in build/bench/gpu.json and gpu.md as soon as it is measured, whatever happens then. --write puts the tables into
bench/RESULTS.md. --python has PyTorch; without one, ours are measured alone. --torch-device cpu and small numbers are
for trying all this without a GPU."""
import argparse, itertools, json, os, re, shutil, signal, statistics, subprocess, sys, threading, time

from report import table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
OPTIONS = {"fp32": [], "tf32": ["--tf32", "on"], "bf16": ["--amp", "bf16"]}
OURS = {"our graph": ["--cuda-graph", "on"], "our calls": [], "graph, cuDNN": ["--cuda-graph", "on", "--conv", "cudnn"],
        "graph, registered": ["--cuda-graph", "on", "--nccl-register", "on"]}  # the last with several ranks alone
MARKS = "<!-- bench gpu -->\n", "<!-- end of bench gpu -->\n"
QUICK = {"turns": 2, "steps": 100, "batch": "512", "precision": "fp32,bf16", "gpus": "1", "ways": "compile,graph,eager",
         "minutes": 8}
FULL = {"turns": 5, "steps": 200, "batch": "64,512,4096", "precision": "fp32,tf32,bf16", "gpus": "", "minutes": 120,
        "ways": "compile+graph,graph,compile,channels_last,eager"}
START, ANSWER = 300, 900  # seconds that PyTorch may take to start, and any measurement
missing = {}  # what was not measured: why


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.removeprefix("Usage: "))
    parser.add_argument("--quick", dest="preset", action="store_const", const=QUICK, default=QUICK)
    parser.add_argument("--full", dest="preset", action="store_const", const=FULL)
    for name, default in QUICK.items():
        parser.add_argument("--" + name, type=float if name == "minutes" else type(default))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch-device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    for name, default in args.preset.items():
        if getattr(args, name) is None:
            setattr(args, name, default)
    if shutil.which(args.python) is None:
        sys.exit("bench/gpu.py: --python %s: there is no such program" % args.python)
    for given, known in ((args.ways, FULL["ways"]), (args.precision, FULL["precision"])):
        for word in set(given.split(",")) - set(known.split(",")):
            sys.exit("bench/gpu.py: %s: it must be one of %s" % (word, known))
    args.ways = args.ways.split(",")
    args.steps_end = time.monotonic() + 0.85 * 60 * args.minutes  # the rest is for the kernels
    args.end = time.monotonic() + 60 * args.minutes
    return args


def seconds_until(moment):
    return moment - time.monotonic()


def estimate(args, sizes):
    """From no measurement on a GPU: 4 s for each start of ours, PyTorch 20 s to start and 60 to compile."""
    compiled = sum(way.startswith("compile") for way in args.ways)
    settings = len(sizes) * len(args.batch.split(",")) * len(args.precision.split(","))
    seconds = settings * (args.turns * (4 * len(OURS) + 2 * len(args.ways)) + 60 * compiled) + 20 + 20 * settings
    return "About %.0f minutes, a guess made without a GPU; it ends after %g." % (
        min(args.minutes, max(1, seconds / 60)), args.minutes)


def launcher(gpus):
    """With several ranks each has OMP_NUM_THREADS cores, by the same launcher for both."""
    return [] if gpus == 1 else ["03_torchrun_env/ddprun", "--nproc-per-node", str(gpus), "--no-python"]


def answers(name, text):
    """The lines of JSON that hold a time; of others the reason is kept."""
    found = []
    for line in text.splitlines():
        try:
            one = json.loads(line) if line.startswith("{") else {}
        except ValueError:  # cut off
            continue
        if "missing" in one:
            missing[name] = one["missing"]
        elif "seconds" in one:
            found.append(one)
    return found


def run(name, command, timeout):
    if timeout <= 0:
        missing[name] = "the time was over"
    if name in missing:
        return []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            missing[name] = "no answer within %.0f s" % timeout
            end_group(process)
            output, errors = process.communicate()  # what it answered before
        finally:
            end_group(process)
    found = answers(name, output)
    if not found and name not in missing:
        missing[name] = (errors.strip().split("\n")[-1] or "status %d" % process.returncode)[:200]
    return found


def end_group(process):
    """The process and all it started: compilers, ranks."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class PyTorch:
    """bench/gpu_step.py on one GPU, which stays: to start it and to compile takes longer than to measure."""

    def __init__(self, args):
        self.args = args
        self.command = [args.python, os.path.join(ROOT, "bench", "gpu_step.py"), args.torch_device]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.name = self.line(START).strip()

    def line(self, limit):
        """"" if none comes in time: then the process is gone."""
        end_at = threading.Timer(max(1, min(limit, seconds_until(self.args.steps_end))), end_group, [self.process])
        end_at.start()
        line = self.process.stdout.readline()
        end_at.cancel()
        return line

    def turn(self, name, batch, precision, way):
        if self.name and seconds_until(self.args.steps_end) <= 0:
            missing[name] = "the time was over"
        if not self.name or name in missing:
            return []
        if self.process.poll() is not None:  # an earlier way ended it
            self.start()
        try:
            self.process.stdin.write("%d %s %s %d\n" % (batch, precision, way, self.args.steps))
            self.process.stdin.flush()
            found = answers(name, self.line(ANSWER))
        except BrokenPipeError:
            found = []
        if not found:
            missing.setdefault(name, "no answer in time, or PyTorch ended")
        return found

    def turns(self, name, gpus, batch, precision, way):
        """Of several ranks: all turns one after the other, for they cannot be asked."""
        request = [str(batch), precision, way, str(self.args.steps), str(self.args.turns)]
        limit = min(2 * ANSWER, seconds_until(self.args.steps_end))
        return run(name, launcher(gpus) + self.command + request, limit) if self.name else []

    def end(self):
        end_group(self.process)
        self.process.wait()


def our_turn(args, name, gpus, batch, precision, way):
    command = [os.path.join(BUILD, "bench", "gpu_step"), "--batch-size", str(batch), "--max-steps", str(args.steps),
               *OURS[way], *OPTIONS[precision]]
    return run(name, launcher(gpus) + command, min(ANSWER, seconds_until(args.steps_end)))


def measure(args, pytorch, gpus, batch, precision, by_way, save):
    """Fills by_way in, and saves it after each answer."""
    turns = {way: [] for way in [*OURS, *args.ways]}
    names = {way: "%s at batch %d, %s, GPUs: %d" % (way, batch, precision, gpus) for way in turns}

    def add(way, found):
        turns[way] += found
        by_way.update(summary(turns))
        save()

    for _ in range(args.turns):
        for way in list(OURS)[:None if gpus > 1 else -1]:
            add(way, our_turn(args, names[way], gpus, batch, precision, way))
        for way in args.ways if gpus == 1 else []:
            add(way, pytorch.turn(names[way], batch, precision, way))
    for way in args.ways if gpus > 1 else []:
        add(way, pytorch.turns(names[way], gpus, batch, precision, way))


def summary(turns):
    """By way: the median of the turns' seconds, all of them, and the most memory."""
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


def row(ways, gpus, batch, precision, by_way):
    ours, theirs = fastest(by_way, OURS), fastest(by_way, ways)
    rate = "%.0f" % (gpus * batch / by_way[ours]["seconds"]) if ours else "-"
    ratio = "%.2fx" % (by_way[theirs]["seconds"] / by_way[ours]["seconds"]) if ours and theirs else "-"
    return [str(gpus), str(batch), precision, *(time_cell(by_way.get(way)) for way in [*OURS, *ways]), rate, ratio]


def memory_row(ways, gpus, batch, precision, by_way):
    cells = ("%.0f" % (1e-6 * by_way[way]["memory"]) if by_way.get(way, {}).get("memory") else "-"
             for way in [*OURS, *ways])
    return [str(gpus), str(batch), precision, *cells]


def kernels(args, batch, precision):
    """What gpu_kernels measured, as figures, and as a table whose last column is the share of the roofline."""
    command = [os.path.join(BUILD, "bench", "gpu_kernels"), batch, precision, str(args.repeats), "5" if args.repeats > 1 else "1"]
    what, limit = "kernels at batch %s, %s" % (batch, precision), max(1, min(ANSWER, seconds_until(args.end)))
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=limit)
        output = done.stdout
        if done.returncode != 0:
            missing[what] = "all of them: bench/gpu_kernels ended with status %d" % done.returncode
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        missing[what] = "all of them: not finished within %.0f s" % limit
    figures, rows, copy, product = [], [], 1, 1
    for line in output.decode().splitlines(keepends=True):
        if line.count("\t") != 4 or not line.endswith("\n"):
            continue  # cut off
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
    if not rows:
        return figures, None
    text = ("Kernels at batch %s, %s. The roofline: a large copy moves %.3g TB/s, a large product makes %.3g TFLOP/s.\n\n" % (
        batch, precision, 1e-12 * copy, 1e-12 * product))
    return figures, text + table(["what", "us", "GB/s", "TFLOP/s", "bound by", "of the roofline"], rows)


def command_line(args):
    given = {name: getattr(args, name) for name in QUICK} | {"ways": ",".join(args.ways)}
    return " ".join("--%s %s" % one for one in given.items() if one[1] != "")


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


def report(args, facts, results, parts):
    """All that was measured so far, as text."""
    head = ["GPUs", "batch", "precision", *OURS, *args.ways]
    return "\n\n".join([
        facts + ".",
        "Milliseconds of a training step, medians of %d turns of %d steps, in brackets the lowest and the highest; batch "
        "is that of a GPU. The ratio is PyTorch's fastest way to our fastest." % (args.turns, args.steps),
        table([*head, "samples/s, ours", "ratio"], [row(args.ways, *result) for result in results]),
        "Memory of a GPU beyond CUDA's context, MB: ours what the process has taken, cuBLAS's workspace included; "
        "PyTorch's the peak of its allocated tensors.",
        table(head, [memory_row(args.ways, *result) for result in results]),
        *parts, *("Not measured: %s: %s." % one for one in missing.items()),
        "    make bench-gpu PYTHON=... ARGS='%s'" % command_line(args)])


def replace(name, text):
    """Of build/bench: whole, or as it was."""
    path = os.path.join(BUILD, "bench", name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def main():
    args = parse()
    program = os.path.join(BUILD, "tests", "against", "gpu", "machine")
    if not os.path.exists(program):
        sys.exit("bench/gpu.py: there is no %s: make bench-gpu builds it and calls this program" % program)
    machine = subprocess.run([program], stdout=subprocess.PIPE, text=True)
    if machine.returncode != 0:
        sys.exit("bench/gpu.py: " + machine.stdout.strip())
    num_gpus = len(re.findall("^GPU ", machine.stdout, re.M))
    sizes = sorted({1, min(2, num_gpus), num_gpus})
    sizes = [int(size) for size in args.gpus.split(",")] if args.gpus else sizes
    print(estimate(args, sizes), flush=True)
    pytorch = PyTorch(args)
    facts = "; ".join([*machine.stdout.strip().split("\n"), pytorch.name or "no PyTorch (--python)"])
    if "stand-in" in facts:
        facts = "**No GPU: a stand-in, on which this was tried. Its times are a CPU's and say nothing.** " + facts
    print(facts, flush=True)

    results, figures, parts = [], [], []

    def save():
        steps = [dict(zip(["gpus", "batch", "precision", "by_way"], result)) for result in results]
        replace("gpu.json", json.dumps({"machine": facts, "steps": steps, "missing": missing, "kernels": figures}, indent=1))
        replace("gpu.md", report(args, facts, results, parts) + "\n")

    try:
        for gpus, batch, precision in itertools.product(sizes, args.batch.split(","), args.precision.split(",")):
            results.append((gpus, int(batch), precision, {}))
            measure(args, pytorch, *results[-1], save)
            print(" | ".join(row(args.ways, *results[-1])), flush=True)
    finally:
        pytorch.end()
    for precision in args.precision.split(","):
        found, text = kernels(args, args.batch.split(",")[-1], precision)
        figures += found
        parts += [text] if text else []
        save()
    if not figures and not any(result[3] for result in results):
        sys.exit("bench/gpu.py: nothing could be measured: " + "; ".join("%s: %s" % one for one in missing.items()))
    text = report(args, facts, results, parts)
    print("\n" + text + "\n\nThis, and all figures: build/bench/gpu.md, gpu.json")
    if args.write:
        write(text)


try:
    main()
except KeyboardInterrupt:
    sys.exit("bench/gpu.py: interrupted; what was measured is in build/bench/gpu.md and gpu.json")
