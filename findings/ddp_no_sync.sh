#!/bin/sh
# Tool:  PyTorch 2.15.0, DistributedDataParallel, no_sync
# Guess: what counts is where the gradients are computed: backward inside the context sends nothing.
# Seen:  what counts is where forward was called: backward inside alone sends, forward inside alone does not.
# > backward inside: gradient [1.5] on rank 0, [1.5] on rank 1
# > forward inside: gradient [1.0] on rank 0, [2.0] on rank 1
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
    for inside in 'backward', 'forward':
        ddp = DDP(torch.nn.Linear(1, 1, bias=False))
        x = torch.tensor([rank + 1.0])
        if inside == 'backward':
            loss = ddp(x)
            with ddp.no_sync():
                loss.backward()
        else:
            with ddp.no_sync():
                loss = ddp(x)
            loss.backward()
        grads = [None] * world
        dist.all_gather_object(grads, ddp.module.weight.grad[0].tolist())
        if rank == 0:
            print(f'{inside} inside: gradient {grads[0]} on rank 0, {grads[1]} on rank 1')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
