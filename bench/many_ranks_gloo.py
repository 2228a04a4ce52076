#!/usr/bin/env python3
"""Usage: torchrun --nproc-per-node 2 --no-python PYTHON bench/many_ranks_gloo.py FOLDER BYTES CALLS

A rank of PyTorch's Gloo whose start and step are measured, exactly as bench/many_ranks.h takes them.
bench/many_ranks.py calls it."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

begun = time.monotonic()  # PyTorch is loaded, as a C program's libraries are when main begins


def write(folder, what, text):
    path = f"{folder}/rank{dist.get_rank()}.{what}"
    with open(path + ".tmp", "w", encoding="ascii") as file:
        file.write(text)
    os.rename(path + ".tmp", path)


def wait(folder, gate):
    os.close(os.open(f"{folder}/{gate}", os.O_RDONLY))


def step(data, calls):
    seconds = []
    for _ in range(1 + calls):  # the first one warms up
        begin = time.monotonic()
        dist.all_reduce(data)
        seconds.append(time.monotonic() - begin)
    return statistics.median(seconds[1:])


def main():
    folder, size, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    formed = time.monotonic()
    data = torch.zeros(size // 4)
    dist.all_reduce(data[:1])
    write(folder, "started", f"{os.getpid()} {begun:.6f} {formed:.6f} {time.monotonic():.6f}\n")
    wait(folder, "steps")
    write(folder, "done", f"{step(data, calls):.6f} {step(data[:65536 // 4], calls):.6f}\n")
    wait(folder, "end")
    dist.destroy_process_group()


main()
