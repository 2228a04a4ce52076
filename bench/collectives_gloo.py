#!/usr/bin/env python3
"""Usage: ddprun --nproc-per-node 2 PYTHON bench/collectives_gloo.py FACTOR OPERATION...

The time of Gloo's collectives by size, through PyTorch, exactly as bench/collectives.h takes it."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

LARGEST_BYTES, BATCH_SECONDS, NUM_BATCHES, MOST_CALLS = 64 << 20, 0.004, 5, 2000


def call_of(operation, count):
    """The call, ready to be made. Of PyTorch's two ways to gather, a list of tensors is the faster one on Gloo."""
    world = dist.get_world_size()
    if operation == "all_gather":
        shares, mine = list(torch.zeros(count).chunk(world)), torch.zeros(count // world)
        return lambda: dist.all_gather(shares, mine)
    data = torch.zeros(count)
    return {"all_reduce": lambda: dist.all_reduce(data), "broadcast": lambda: dist.broadcast(data, 0)}[operation]


def batch_seconds(call, calls):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item() / calls


def main():
    factor, operations = int(sys.argv[1]), sys.argv[2:]
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    for operation in operations:
        size = 4
        while size <= LARGEST_BYTES:
            if operation != "all_gather" or size // 4 >= world:
                call = call_of(operation, size // 4)
                batch_seconds(call, 1)
                calls = max(1, min(MOST_CALLS, int(BATCH_SECONDS / batch_seconds(call, 1))))
                value = 1e6 * statistics.median(batch_seconds(call, calls) for _ in range(NUM_BATCHES))
                if dist.get_rank() == 0:
                    print(json.dumps({"case": f"{operation}, {world} ranks", "x": size, "value": value, "unit": "us"}),
                          flush=True)
            size *= factor
    dist.destroy_process_group()


main()
