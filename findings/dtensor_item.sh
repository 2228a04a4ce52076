#!/bin/sh
# Tool:  PyTorch 2.15.0, DTensor (what FSDP2's parameters are), .item()
# Guess: the sum, maximum or norm of a sharded tensor is one number, the same on all ranks.
# Seen:  .item() gives the rank's own part, without a word; .full_tensor().item() gives the number.
#        mean() and clip_grad_norm_ are right, because they have reduced already.
# > values 0 to 4, of which rank 0 has [0, 1, 2] and rank 1 has [3, 4]
# > sum: 3.0 on rank 0, 7.0 on rank 1; full_tensor: 10.0
# > max: 2.0 on rank 0, 4.0 on rank 1; full_tensor: 4.0
# > norm: 2.2 on rank 0, 5.0 on rank 1; full_tensor: 5.5
# > mean: 2.0 on rank 0, 2.0 on rank 1; full_tensor: 2.0
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
from torch.distributed.tensor import Shard, distribute_tensor

def gather(value, world):
    values = [None] * world
    dist.all_gather_object(values, value)
    return values

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    x = distribute_tensor(torch.arange(5.0), init_device_mesh('cpu', (world,)), [Shard(0)])
    parts = gather(x.to_local().int().tolist(), world)
    lines = [f'values 0 to 4, of which rank 0 has {parts[0]} and rank 1 has {parts[1]}']
    for name in 'sum', 'max', 'norm', 'mean':
        y = getattr(x, name)()
        items = gather(y.item(), world)
        lines.append(f'{name}: {items[0]:.1f} on rank 0, {items[1]:.1f} on rank 1; full_tensor: {y.full_tensor().item():.1f}')
    if rank == 0:
        print('\n'.join(lines))
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
