#!/bin/sh
# Tool:  PyTorch 2.15.0, DTensor, conv1d of a sequence that is sharded by its length
# Guess: the ranks exchange what a kernel needs at the borders, or it is refused.
# Seen:  a rank convolves its own part and calls it the whole: shape says 6 numbers, full_tensor() has 2, without a word.
# > sharded by batch: shape says 6, numbers 3 6 9 12 15 18
# > sharded by length: shape says 6, numbers 3 6
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

def show(rank, name, mesh, dim):
    x = distribute_tensor(torch.arange(8.).view(1, 1, 8), mesh, [Shard(dim)])
    kernel = distribute_tensor(torch.ones(1, 1, 3), mesh, [Replicate()])
    y = torch.nn.functional.conv1d(x, kernel)
    numbers = y.full_tensor().flatten().int().tolist()
    if rank == 0:
        print(f'sharded by {name}: shape says {y.shape[2]}, numbers', *numbers, flush=True)

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    mesh = init_device_mesh('cpu', (world,))
    show(rank, 'batch', mesh, 0)
    show(rank, 'length', mesh, 2)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
