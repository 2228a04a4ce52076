#!/bin/sh
# Tool:  PyTorch 2.15.0, broadcast and all_reduce of its Gloo backend
# Guess: a transposed tensor on one rank is refused as not contiguous, or its elements keep their places.
# Seen:  the elements travel in the order of memory: element (0, 1) of one rank meets another one's (0, 1) no more.
# > broadcast of [[0, 3], [1, 4], [2, 5]]: rank 1 has [[0, 1], [2, 3], [4, 5]]
# > all_reduce with zeros: rank 0 has [[0, 3], [1, 4], [2, 5]], rank 1 has [[0, 1], [2, 3], [4, 5]]
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
    sent = torch.arange(6).reshape(2, 3).t()
    results = []
    for collective in dist.broadcast, dist.all_reduce:
        x = sent.clone(memory_format=torch.preserve_format) if rank == 0 else torch.zeros(3, 2, dtype=torch.int64)
        collective(x, 0) if collective is dist.broadcast else collective(x)
        all_ranks = [None] * world
        dist.all_gather_object(all_ranks, x.tolist())
        results.append(all_ranks)
    if rank == 0:
        print(f'broadcast of {sent.tolist()}: rank 1 has {results[0][1]}')
        print(f'all_reduce with zeros: rank 0 has {results[1][0]}, rank 1 has {results[1][1]}')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
