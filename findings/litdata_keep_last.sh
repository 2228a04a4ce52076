#!/bin/sh
# Tool:  litdata 0.2.76, StreamingDataset(drop_last=False) on two ranks, StreamingDataLoader with batches of 2
# Guess: 11 samples are shared evenly, 5 and 6, which is 3 batches each.
# Seen:  all that whole batches leave over goes to the last rank: 2 batches and 4, so averages in DDP do not match up.
# > drop_last=True: 4 and 4 samples in 2 and 2 batches
# > drop_last=False: 4 and 7 samples in 2 and 4 batches
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 litdata==0.2.76 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import litdata
import torch.distributed as dist
import torch.multiprocessing as mp

def sample(number):
    return number

def show(rank, world, data, drop_last):
    loader = litdata.StreamingDataLoader(litdata.StreamingDataset(data, drop_last=drop_last), batch_size=2)
    sizes = [len(batch) for batch in loader]
    seen = [None] * world
    dist.all_gather_object(seen, (sum(sizes), len(sizes)))
    if rank == 0:
        (first, batches), (second, more) = seen
        print(f'drop_last={drop_last}: {first} and {second} samples in {batches} and {more} batches', flush=True)

def run(rank, path, world, data):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    show(rank, world, data, True)
    show(rank, world, data, False)
    dist.destroy_process_group()

if __name__ == '__main__':
    litdata.optimize(fn=sample, inputs=list(range(11)), output_dir=sys.argv[2], num_workers=1, chunk_size=4)
    mp.start_processes(run, (sys.argv[1], 2, sys.argv[2]), 2, start_method='fork')
EOF
HOME=$tmp python "$tmp/ranks.py" "$tmp/store" "$tmp/data" 2>"$tmp/errors" | grep '^drop_last' | verdict
