#!/bin/sh
# Tool:  PyTorch 2.15.0, powerSGD_hook, whose PowerSGDState is pickled with the model and given to a new DistributedDataParallel
# Guess: the resumed run makes the steps of one that went on: errors and low-rank matrices are in the state.
# Seen:  a new DDP's first bucket has the model's order, later ones the order of backward: errors go to other parameters.
# > resumed, 1 weight: as without a stop
# > resumed, 2 weights: other weights
# > resumed, 2 weights, after one backward pass: as without a stop
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import copy
import logging
import pickle
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

logging.disable()

def inputs(step, rank):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(2 * step + rank))

def wrap(model, state):
    ddp = DistributedDataParallel(model)
    ddp.register_comm_hook(state, powerSGD_hook)
    return ddp

def train(ddp, steps, rank):
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for step in steps:
        optimizer.zero_grad()
        ddp(inputs(step, rank)).square().sum().backward()
        optimizer.step()

def resume(layers, rank, backward_first=False):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8, bias=False) for _ in range(layers)])
    state = PowerSGDState(None, start_powerSGD_iter=2)
    ddp = wrap(model, state)
    train(ddp, range(4), rank)
    saved = copy.deepcopy(model), pickle.dumps(state)
    train(ddp, range(4, 8), rank)
    resumed, state = saved[0], pickle.loads(saved[1])
    ddp = DistributedDataParallel(resumed) if backward_first else wrap(resumed, state)
    if backward_first:
        ddp(inputs(0, rank)).sum().backward()
        ddp.register_comm_hook(state, powerSGD_hook)
    train(ddp, range(4, 8), rank)
    same = all(a.equal(b) for a, b in zip(model.parameters(), resumed.parameters()))
    if rank == 0:
        print(f"resumed, {layers} weight{'s' * (layers > 1)}{', after one backward pass' * backward_first}:",
              'as without a stop' if same else 'other weights', flush=True)

def run(rank, path, world):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    resume(1, rank)
    resume(2, rank)
    resume(2, rank, backward_first=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
