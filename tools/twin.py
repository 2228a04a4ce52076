#!/usr/bin/env python3
"""Usage: tools/twin.py 01|02a|02b|02c|02|03|04|05      A step's train.c and its twin in PyTorch, side by side.

As wide as the terminal, or 220 columns without one; COLUMNS=N sets another width. It needs no PyTorch."""
import os, re, shutil, subprocess, sys, textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SPAWN = "02_multi_gpu_spawn/train"
STEPS = {"01": "01_single_gpu/train", "02a": SPAWN + "_a_spawn", "02b": SPAWN + "_b_all_reduce",
         "02c": SPAWN + "_c_sampler", "02": SPAWN, "03": "03_torchrun_env/train", "04": "04_slurm_multinode/train",
         "05": "05_fault_tolerance/train"}
# Where both begin the same part of the program: a pattern for C, and one for Python if that differs.
PARTS = [(r"run_batch\(Model", "def run_batch"), (r"evaluate\(Model", "def evaluate"), ("loss = 0", "loss = correct"),
         (r"metrics_test\(", r"metrics\.test\("), (r"^static \w+ train\(", "^def train"), ("rank is unique",),
         ("Rendezvous:",), ("whole set sits",), (r"distributed_sampler_init\(", r"= DistributedSampler\("), ("Model:",),
         ("Checkpoint checkpoint;", "checkpoint = "), (r"for \(int epoch", "for epoch"),
         (r"const Batch \*batch;", "for number,"), ("Reading the loss",), (r"if \(stop\.agreed", "if stopped:"), (r"if \(test_set", r"if len\(test_set"),
         ("(save|snapshots)_final", r"checkpoint\.save_final"), ("process_group_destroy", "destroy_process_group"),
         (r" spawn\(int", "^def spawn"), (r"^int main", "__main__")]


def parts(path, column):
    """{number of the part: its lines}; a part begins with a paragraph and ends before that of the next."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        paragraphs = re.split(r"\n\n+", file.read().strip("\n"))
    found, last = {-1: []}, -1
    for paragraph in paragraphs:
        for number in range(last + 1, len(PARTS)):
            if re.search(PARTS[number][min(column, len(PARTS[number]) - 1)], paragraph, re.M):
                found[number], last = [], number
                break
        found[last] += paragraph.split("\n") + [""]
    return found


def fold(lines, width):
    """Long lines continue on the next line, further indented."""
    for line in lines:
        indent = len(line) - len(line.lstrip()) + 8
        yield from textwrap.wrap(line, width, subsequent_indent=" " * indent, drop_whitespace=True,
                                 break_on_hyphens=False) or [""]


def side_by_side(c, python, columns):
    width = (columns - 3) // 2
    here, there = parts(c, 0), parts(python, 1)
    shared = [number for number in sorted(here) if number in there]
    rows = [(c, python), ("-" * width, "-" * width)]
    for begin, end in zip(shared, shared[1:] + [len(PARTS)]):  # parts that only one has follow the part before
        left, right = (list(fold([line for number in range(begin, end) for line in program.get(number, [])], width))
                       for program in (here, there))
        for row in range(max(len(left), len(right))):
            rows.append((left[row] if row < len(left) else "", right[row] if row < len(right) else ""))
    return "\n".join(f"{left:<{width}} | {right}".rstrip() for left, right in rows) + "\n"


def main():
    step = sys.argv[1] if len(sys.argv) == 2 else ""
    if step not in STEPS:
        sys.exit(print(f"{sys.argv[0]}: '{step}' is no step: {' '.join(STEPS)}", file=sys.stderr) or 2)
    if step == "04":
        print("PyTorch's launchers hide what step 04 adds to step 03: its twin is that of 03.", file=sys.stderr)
    columns = shutil.get_terminal_size((220, 0)).columns
    text = side_by_side(STEPS[step] + ".c", STEPS["03" if step == "04" else step] + ".py", max(columns, 80))
    if sys.stdout.isatty() and shutil.which("less"):
        subprocess.run(["less", "-FRX"], input=text, text=True, check=False)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
