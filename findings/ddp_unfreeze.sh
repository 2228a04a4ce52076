#!/bin/sh
# Tool:  PyTorch 2.15.0, DistributedDataParallel, a layer frozen for the first epochs and trained from then on
# Guess: once it asks for a gradient again, the gradient is averaged as the others are, or an error says no.
# Seen:  who was frozen when the model was wrapped is never averaged: each rank steps with its own gradient, and the
#        ranks' models part without a word. Frozen after the wrapping, it is averaged later.
# > frozen before the wrapping: gradient 1 on rank 0, 2 on rank 1; the other layer's: 1.5 on rank 0, 1.5 on rank 1
# > frozen after the wrapping: gradient 1.5 on rank 0, 1.5 on rank 1; the other layer's: 1.5 on rank 0, 1.5 on rank 1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

def step(model, x):
    model.zero_grad()
    model(x).sum().backward()

def run(rank, path):
    dist.init_process_group('gloo', store=dist.FileStore(path, 2), rank=rank, world_size=2)
    for when in 'before', 'after':
        layers = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False))
        for weight in layers.parameters():
            torch.nn.init.ones_(weight)
        layers[0].requires_grad_(when == 'after')
        model = DistributedDataParallel(layers, find_unused_parameters=True)
        layers[0].requires_grad_(False)
        step(model, torch.full((1, 1), rank + 1.0))
        layers[0].requires_grad_(True)
        step(model, torch.full((1, 1), rank + 1.0))
        seen = [None] * 2
        dist.all_gather_object(seen, [weight.grad.item() for weight in layers.parameters()])
        text = [' on rank 0, '.join(f'{gradients[i]:g}' for gradients in seen) + ' on rank 1' for i in range(2)]
        if rank == 0:
            print(f"frozen {when} the wrapping: gradient {text[0]}; the other layer's: {text[1]}")
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1],), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
