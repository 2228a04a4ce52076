#!/usr/bin/env python3
"""Usage: ddprun --nproc-per-node 2 PYTHON bench/collectives_gloo.py FACTOR OPERATION...

The time of Gloo's collectives by size, through PyTorch, exactly as bench/collectives.h takes it."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

import machine

LARGEST_BYTES, MOST_CALLS, BATCH_SECONDS, MOST_SECONDS = 64 << 20, 2000, 0.0003, 0.3
NUM_BATCHES, FEW_BATCHES, MOST_BATCHES = 25, 5, 200


def call_of(operation, count):
    """The call, ready to be made. Of PyTorch's two ways to gather, a list of tensors is the faster one on Gloo."""
    world = dist.get_world_size()
    if operation == "all_gather":
        shares, mine = list(torch.zeros(count).chunk(world)), torch.zeros(count // world)
        return lambda: dist.all_gather(shares, mine)
    data = torch.zeros(count)
    return {"all_reduce": lambda: dist.all_reduce(data), "broadcast": lambda: dist.broadcast(data, 0)}[operation]


def batch(call, calls):
    """Seconds by call, and seconds in which threads waited for a core: those of the slowest rank."""
    before = machine.scheduled("self")[1]
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    end = time.perf_counter()
    slowest = torch.tensor([(end - begin) / calls, machine.scheduled("self")[1] - before], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.tolist()


def call_seconds(call):
    batch(call, 1)
    calls = max(1, min(MOST_CALLS, int(BATCH_SECONDS / batch(call, 1)[0])))
    every, clean = [], []
    while len(clean) < NUM_BATCHES and len(every) < MOST_BATCHES and (sum(every) * calls < MOST_SECONDS or len(every) < FEW_BATCHES):
        seconds, without_core = batch(call, calls)
        every.append(seconds)
        clean += [seconds] if without_core == 0 else []
    return statistics.median(clean if len(clean) >= FEW_BATCHES else every)


def main():
    factor, operations = int(sys.argv[1]), sys.argv[2:]
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    for operation in operations:
        size = 4
        while size <= LARGEST_BYTES:
            if operation != "all_gather" or size // 4 >= world:
                call = call_of(operation, size // 4)
                value = 1e6 * call_seconds(call)
                if dist.get_rank() == 0:
                    print(json.dumps({"case": f"{operation}, {world} ranks", "x": size, "value": value, "unit": "us"}),
                          flush=True)
            size *= factor
    dist.destroy_process_group()


main()
