#!/usr/bin/env python3
"""Usage: bench/gpu.py [--turns 5] [--steps 200] [--batch 64,512,4096] [--precision fp32,tf32,bf16]
                    [--device cuda|cpu] [--python PYTHON] [--json FILE]

The CNN's training step on a GPU, ours beside PyTorch's, which take turns; then what share of the
roofline each kernel reaches (gpu_kernels.c). Prints tables for bench/RESULTS.md, and writes all
figures to FILE (build/bench/gpu.json). --python has PyTorch; without one, ours are measured alone."""
import argparse, json, os, platform, statistics, subprocess, sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
OPTIONS = {"fp32": [], "tf32": ["--tf32", "on"], "bf16": ["--amp", "bf16"]}
WAYS = ["graph", "calls", "compile", "eager"]  # two of ours, two of PyTorch's


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", default="64,512,4096")
    parser.add_argument("--precision", default="fp32,tf32,bf16")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", default=os.path.join(BUILD, "bench", "gpu.json"))
    return parser.parse_args()


class PyTorch:
    """bench/gpu_step.py, which stays: to start it and to compile takes longer than to measure."""

    def __init__(self, python, device):
        command = [python, os.path.join(ROOT, "bench", "gpu_step.py"), device]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.name = self.process.stdout.readline().strip()

    def seconds(self, batch, precision, way, steps):
        """Of a step; None where it cannot be had."""
        if self.process.poll() is not None:
            return None
        try:
            self.process.stdin.write("%d %s %s %d\n" % (batch, precision, way, steps))
            self.process.stdin.flush()
            return float(self.process.stdout.readline())
        except (BrokenPipeError, ValueError):
            return None

    def end(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


def our_seconds(args, batch, precision, way):
    command = [os.path.join(BUILD, "bench", "cnn_step"), "--device", args.device, "--batch-size", str(batch),
               "--max-steps", str(args.steps)] + OPTIONS[precision]
    if way == "graph":
        command += ["--cuda-graph", "on"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600)
    return batch / json.loads(done.stdout)["value"] if done.returncode == 0 else None


def measure(args, pytorch):
    """Median, lowest and highest of the turns for each batch, precision and way."""
    results = []
    for batch in map(int, args.batch.split(",")):
        for precision in args.precision.split(","):
            if args.device == "cpu" and precision == "tf32":
                continue
            turns = {way: [] for way in WAYS if not (way == "graph" and args.device == "cpu")}
            for _ in range(args.turns):
                for way, seconds in turns.items():
                    ours = way in ("graph", "calls")
                    seconds.append(our_seconds(args, batch, precision, way) if ours else
                                   pytorch.seconds(batch, precision, way, args.steps))
            for way, seconds in turns.items():
                good = [value for value in seconds if value is not None]
                if good:
                    results.append({"batch": batch, "precision": precision, "way": way,
                                    "seconds": statistics.median(good), "turns": good})
            print(rows([result for result in results if result["batch"] == batch and
                        result["precision"] == precision]), flush=True)
    return results


HEADER = """
| batch | precision | ours, graph | ours, calls | torch.compile | PyTorch, eager | samples/s, ours | to compile | to eager |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def rows(results):
    """One row of the table: milliseconds a step, and how many times as fast ours is."""
    by_way = {result["way"]: result for result in results}
    first = results[0] if results else None
    if first is None:
        return "(nothing could be measured)"
    best = by_way.get("graph", by_way.get("calls"))

    def cell(way):
        if way not in by_way:
            return "-"
        turns = [1e3 * value for value in by_way[way]["turns"]]
        return "%.3f (%.3f-%.3f)" % (1e3 * by_way[way]["seconds"], min(turns), max(turns))

    def ratio(way):
        return "%.2f" % (by_way[way]["seconds"] / best["seconds"]) if way in by_way and best else "-"

    throughput = "%.0f" % (first["batch"] / best["seconds"]) if best else "-"
    return "| %d | %s | %s | %s | %s | %s |" % (
        first["batch"], first["precision"], " | ".join(cell(way) for way in WAYS), throughput,
        ratio("compile"), ratio("eager"))


def kernels(args):
    """A table of what gpu_kernels measured, and its figures."""
    command = [os.path.join(BUILD, "bench", "gpu_kernels"), args.batch.split(",")[-1]]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit("bench/gpu_kernels ended with status %d" % done.returncode)
    figures, copy, product = [], 1, 1
    for line in done.stdout.splitlines():
        name, precision, *numbers = line.split("\t")
        seconds, size, operations = map(float, numbers)
        if name == "peak copy":
            copy = size / seconds
        elif name == "peak product":
            product = operations / seconds
            print("\nBatch %s, %s. The roofline: a large copy moves %.2f TB/s, a large product makes %.1f "
                  "TFLOP/s.\n\n| what | us | GB/s | TFLOP/s | bound by | of the roofline |\n"
                  "| --- | --- | --- | --- | --- | --- |" % (args.batch.split(",")[-1], precision,
                                                             1e-12 * copy, 1e-12 * product))
        else:
            by_memory, by_sums = size / copy, operations / product
            print("| %s | %.1f | %.0f | %.2f | %s | %.0f %% |" % (
                name, 1e6 * seconds, 1e-9 * size / seconds, 1e-12 * operations / seconds,
                "memory" if by_memory > by_sums else "sums", 100 * max(by_memory, by_sums) / seconds))
        figures.append({"kernel": name.strip(), "precision": precision, "seconds": seconds,
                        "bytes": size, "operations": operations})
    return figures


def main():
    args = parse()
    pytorch = PyTorch(args.python, args.device)
    print("For bench/RESULTS.md, machine and versions included: %s; %s; milliseconds a step, medians of %d "
          "turns, in brackets the lowest and the highest." % (
              pytorch.name or "no PyTorch (--python)", platform.platform(), args.turns))
    print(HEADER, flush=True)
    results = measure(args, pytorch)
    pytorch.end()
    report = {"pytorch": pytorch.name, "platform": platform.platform(), "steps": results}
    if args.device == "cuda":
        report["kernels"] = kernels(args)
    os.makedirs(os.path.dirname(os.path.abspath(args.json)), exist_ok=True)
    with open(args.json, "w") as file:
        json.dump(report, file, indent=1)
    print("\nAll figures: %s" % args.json)
    if not results:
        sys.exit("nothing could be measured")


main()
