#!/bin/sh
# Tool:  PyTorch 2.15.0, fully_shard on CPUs
# Guess: with the same seed on all ranks, a sharded layer made on "meta" starts as one of a single process, or at least at random.
# Seen:  each rank draws its part from the same numbers, so the layer's second half is its first once more.
# > one process: 4 rows, 4 of them different
# > fully_shard on 2 ranks: 4 rows, 2 of them different
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    with torch.device('meta'):
        layer = torch.nn.Linear(2, 4)
    fully_shard(layer, mesh=init_device_mesh('cpu', (world,)))
    layer.to_empty(device='cpu')
    torch.manual_seed(0)
    layer.reset_parameters()
    weight = layer.weight.full_tensor()
    if rank == 0:
        torch.manual_seed(0)
        for name, rows in ('one process', torch.nn.Linear(2, 4).weight), (f'fully_shard on {world} ranks', weight):
            print(f'{name}: {len(rows)} rows, {len(set(map(tuple, rows.tolist())))} of them different')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
