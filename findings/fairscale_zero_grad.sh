#!/bin/sh
# Tool:  fairscale 0.4.13 with PyTorch 2.15.0, ShardedDataParallel with its optimizer OSS, optimizer.zero_grad() in the loop
# Guess: it trains as DistributedDataParallel does, or says that it does not know this PyTorch.
# Seen:  zero_grad() now sets None and so takes gradients out of the buckets: after the first step, none is averaged.
# > optimizer.zero_grad(): averaged in step 0, own in step 1, own in step 2
# > optimizer.zero_grad(set_to_none=False): averaged in step 0, averaged in step 1, averaged in step 2
# > model.zero_grad(): averaged in step 0, averaged in step 1, averaged in step 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 fairscale==0.4.13 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from fairscale.nn import ShardedDataParallel
from fairscale.optim import OSS

def show(rank, name, clear):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
    optimizer = OSS(model.parameters(), torch.optim.SGD, lr=0.)
    model = ShardedDataParallel(model, optimizer)
    steps = []
    for step in range(3):
        clear(model, optimizer)
        model(torch.full((1, 1), float(rank))).sum().backward()
        if rank == 0: # its own gradients are 0, the averages are not
            (own,) = optimizer.optim.param_groups[0]['params']
            steps.append(f"{'averaged' if own.grad.item() else 'own'} in step {step}")
        optimizer.step()
    if rank == 0:
        print(f"{name}: {', '.join(steps)}", flush=True)

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    show(rank, 'optimizer.zero_grad()', lambda model, optimizer: optimizer.zero_grad())
    show(rank, 'optimizer.zero_grad(set_to_none=False)', lambda model, optimizer: optimizer.zero_grad(set_to_none=False))
    show(rank, 'model.zero_grad()', lambda model, optimizer: model.zero_grad())
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
