#!/bin/sh
# Tool:  PyTorch 2.15.0, all_reduce of torch.distributed.nn.functional
# Guess: two ranks average their losses with it, and backward gives a rank half of the gradient of its own loss.
# Seen:  the whole of it: backward sums the gradients of all ranks' averages. Averaged over ranks again, it is right.
# > rank 0: loss 1 * w, gradient 1.0 by itself, 1.0 through the average
# > rank 1: loss 3 * w, gradient 3.0 by itself, 3.0 through the average
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.nn.functional import all_reduce

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    x = 1 + 2 * rank
    gradients = []
    for average in False, True:
        w = torch.ones(1, requires_grad=True)
        loss = x * w
        if average:
            loss = all_reduce(loss) / world
        loss.backward()
        gradients.append(w.grad.item())
    for turn in range(world):
        if turn == rank:
            print(f'rank {rank}: loss {x} * w, gradient {gradients[0]} by itself, {gradients[1]} through the average', flush=True)
        dist.barrier()
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
