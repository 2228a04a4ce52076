#!/bin/sh
# Tool:  PyTorch 2.15.0, averaged losses of a DTensor whose 5 rows are on 2 ranks as 3 and 2
# Guess: mse_loss is the mean over all rows, as mean() of the same DTensor is.
# Seen:  it is the mean of the two ranks' means, so that rows of the smaller part count for more.
# > mean of squares: 6.0 of the tensor, 6.0 of the DTensor
# > mse_loss: 6.0 of the tensor, 7.083 of the DTensor
# > binary_cross_entropy_with_logits: 2.24 of the tensor, 2.456 of the DTensor
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    whole = torch.arange(5.0)
    parts = distribute_tensor(whole, init_device_mesh('cpu', (world,)), [Shard(0)])
    losses = {
        'mean of squares': lambda x: x.square().mean(),
        'mse_loss': lambda x: mse_loss(x, 0 * x),
        'binary_cross_entropy_with_logits': lambda x: binary_cross_entropy_with_logits(x, 0 * x),
    }
    for name, loss in losses.items():
        of_tensor, of_parts = loss(whole).item(), loss(parts).full_tensor().item()
        if rank == 0:
            print(f'{name}: {round(of_tensor, 3)} of the tensor, {round(of_parts, 3)} of the DTensor', flush=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
