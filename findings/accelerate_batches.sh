#!/bin/sh
# Tool:  accelerate 1.15.0 with PyTorch 2.15.0, a DataLoader of batches of 2 that was given to prepare()
# Guess: ranks share the samples as DistributedSampler does: rank 0 takes 0, 2, 4 ..., rank 1 takes 1, 3, 5 ...
# Seen:  whole batches are dealt out by turns, and the one that is missing is filled from the start.
# > accelerate: rank 0 has [0, 1] [4, 5] [8, 9], rank 1 has [2, 3] [6, 7] [0, 1]
# > DistributedSampler: rank 0 has [0, 2] [4, 6] [8], rank 1 has [1, 3] [5, 7] [9]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 accelerate==1.15.0 numpy==2.4.6

cat >"$tmp/show.py" <<'EOF'
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader, DistributedSampler

accelerator = Accelerator(cpu=True)
data = list(range(10))
loaders = {
    'accelerate': accelerator.prepare(DataLoader(data, batch_size=2)),
    'DistributedSampler': DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False)),
}
for name, loader in loaders.items():
    ranks = [None, None]
    dist.all_gather_object(ranks, ' '.join(str(batch.tolist()) for batch in loader))
    if accelerator.is_main_process:
        print(f'{name}: rank 0 has {ranks[0]}, rank 1 has {ranks[1]}')
accelerator.end_training()
EOF
python -m torch.distributed.run --standalone --nproc-per-node 2 "$tmp/show.py" 2>"$tmp/errors" | verdict
