#!/bin/sh
# Tool:  PyTorch 2.15.0, fill_ on a DTensor that is a sum still to be made
# Guess: after fill_(2) every element is 2.
# Seen:  each rank fills its summand, so every element is 2 times the number of ranks.
# > sum(0).fill_(2): placement Partial, values [4.0, 4.0]
# > sum(0).redistribute to Replicate, fill_(2): values [2.0, 2.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    x = distribute_tensor(torch.ones(4, 2), init_device_mesh('cpu', (world,)), [Shard(0)])
    partial = x.sum(0).fill_(2)
    whole = x.sum(0).redistribute(placements=[Replicate()]).fill_(2)
    values = partial.full_tensor().tolist(), whole.full_tensor().tolist()
    if rank == 0:
        print(f'sum(0).fill_(2): placement {type(partial.placements[0]).__name__}, values {values[0]}')
        print(f'sum(0).redistribute to Replicate, fill_(2): values {values[1]}', flush=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
