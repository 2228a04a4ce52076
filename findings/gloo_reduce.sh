#!/bin/sh
# Tool:  PyTorch 2.15.0, reduce of its Gloo backend
# Guess: reduce to rank 0 leaves the tensors of ranks 1 and 2 as they were, as MPI_Reduce does.
# Seen:  their tensors hold partial sums afterwards, also in part; only rank 0's is what the documents promise.
# > rank 0: given 1.0, now the sum 6.0
# > rank 1: given 2.0, now something else
# > rank 2: given 3.0, now something else
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    x = torch.full((1000,), float(rank + 1))
    dist.reduce(x, dst=0)
    now = {6.0: 'the sum 6.0', rank + 1.0: 'the same'}
    values = {now.get(value, 'something else') for value in x.tolist()}
    value = values.pop() if len(values) == 1 else 'something else'
    lines = [None] * world
    dist.all_gather_object(lines, f'rank {rank}: given {rank + 1.0}, now {value}')
    if rank == 0:
        print('\n'.join(lines))
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 3), 3)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
