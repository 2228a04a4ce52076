#!/usr/bin/env python3
"""Usage: 03_torchrun_env/ddprun --nproc-per-node 2 bench/ddp_step.py [steps]     As ddp_step.c, with PyTorch's DDP."""
import json, os, sys, time
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from net import Net

BATCH, WARM_UP, ROWS = 64, 4, 1437
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(ROWS, 1, 28, 28), torch.randint(0, 10, (ROWS,))


def run(steps):
    for _ in range(steps):
        rows = torch.randint(0, ROWS, (BATCH,))
        optimizer.zero_grad()
        F.nll_loss(model(images[rows]), labels[rows]).backward()
        optimizer.step()


run(WARM_UP)
dist.barrier()
begin, begin_spent = time.monotonic(), time.process_time()
run(steps)
rate = steps * BATCH / (time.monotonic() - begin)
spent = 1e3 * (time.process_time() - begin_spent) / steps
sums = torch.tensor([rate, spent], dtype=torch.float64)
dist.all_reduce(sums)
if rank == 0:
    print(json.dumps({"case": "%d ranks" % world_size, "value": sums[0].item(), "unit": "samples/s"}), flush=True)
    print(json.dumps({"case": "%d ranks, processor's time of a step" % world_size,
                      "value": sums[1].item() / world_size, "unit": "ms"}), flush=True)
dist.barrier()
os._exit(0)  # at its ordinary end one in ten such jobs aborts: threads of PyTorch's that still run
