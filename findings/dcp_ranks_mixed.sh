#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.distributed.checkpoint
# Guess: where ranks hold other values under one name, as BatchNorm's statistics, rank 0's are saved, or a file per rank.
# Seen:  one rank's value for each name, and not always the same rank's: the names are shared out to even the writing.
# > saved and loaded: mean rank 0's, var rank 1's, count rank 0's, seed rank 1's, loss rank 1's
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path + '/store', world), rank=rank, world_size=world)

    def state(value):
        return {
            'mean': torch.full((2,), float(value)),
            'var': torch.full((2,), float(value)),
            'count': torch.tensor(value),
            'seed': value,
            'loss': float(value),
        }

    dcp.save(state(rank), checkpoint_id=path + '/checkpoint')
    loaded = state(-1)
    dcp.load(loaded, checkpoint_id=path + '/checkpoint')
    if rank == 0:
        ranks = (f"{name} rank {int(torch.as_tensor(value).max())}'s" for name, value in loaded.items())
        print('saved and loaded:', ', '.join(ranks))
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp" 2>"$tmp/errors" | verdict
