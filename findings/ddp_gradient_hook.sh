#!/bin/sh
# Tool:  PyTorch 2.15.0, DistributedDataParallel with register_post_accumulate_grad_hook
# Guess: the hook, from which an optimizer may step a parameter at once, sees the gradient that all ranks have.
# Seen:  it sees the rank's own gradient; the average comes later, so ranks that step there drift apart.
# > rank 0: in the hook [1.0], after the backward pass [1.5]
# > rank 1: in the hook [2.0], after the backward pass [1.5]
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
    ddp = DDP(torch.nn.Linear(1, 1, bias=False))
    weight, seen = ddp.module.weight, []
    weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad[0].tolist()))
    ddp(torch.tensor([rank + 1.0])).backward()
    lines = [None] * world
    dist.all_gather_object(lines, f'rank {rank}: in the hook {seen[0]}, after the backward pass {weight.grad[0].tolist()}')
    if rank == 0:
        print('\n'.join(lines))
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
