#!/bin/sh
# Tool:  PyTorch 2.15.0, DistributedDataParallel
# Guess: after two forward passes, two losses may go backward one by one or as a sum, with the same gradient.
# Seen:  one by one, the second backward pass is not averaged: the ranks' gradients differ, without a word.
# > sum of the losses: gradient [3.0] on rank 0, [3.0] on rank 1
# > one after the other: gradient [2.5] on rank 0, [3.5] on rank 1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    for name in 'sum of the losses', 'one after the other':
        ddp = DDP(torch.nn.Linear(1, 1, bias=False))
        x = torch.tensor([rank + 1.0])
        first, second = ddp(x), ddp(x)
        if name == 'sum of the losses':
            (first + second).backward()
        else:
            first.backward()
            second.backward()
        grads = [None] * world
        dist.all_gather_object(grads, ddp.module.weight.grad[0].tolist())
        if rank == 0:
            print(f'{name}: gradient {grads[0]} on rank 0, {grads[1]} on rank 1')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
