#!/bin/sh
# Tool:  PyTorch 2.15.0, DistributedDataParallel, a model that is converted or loaded after it was wrapped
# Guess: gradients are averaged as before, or an error says that the parameters are no longer those of the wrapper.
# Seen:  each rank keeps its own gradients after double(), and after load_state_dict with assign=True, without a word.
# > load_state_dict(weights): gradient [1.5] on rank 0, [1.5] on rank 1
# > load_state_dict(weights, assign=True): gradient [1.0] on rank 0, [2.0] on rank 1
# > double(): gradient [1.0] on rank 0, [2.0] on rank 1
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
    weights = {'weight': torch.ones(1, 1)}
    changes = {
        'load_state_dict(weights)': lambda model: model.load_state_dict(weights),
        'load_state_dict(weights, assign=True)': lambda model: model.load_state_dict(weights, assign=True),
        'double()': lambda model: model.double(),
    }
    for name, change in changes.items():
        ddp = DDP(torch.nn.Linear(1, 1, bias=False))
        change(ddp.module)
        ddp(torch.tensor([rank + 1.0], dtype=ddp.module.weight.dtype)).backward()
        grads = [None] * world
        dist.all_gather_object(grads, ddp.module.weight.grad[0].tolist())
        if rank == 0:
            print(f'{name}: gradient {grads[0]} on rank 0, {grads[1]} on rank 1')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
