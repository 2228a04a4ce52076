#!/bin/sh
# Tool:  pytorch-ignite 0.5.5 with PyTorch 2.15.0, broadcast of ignite.distributed
# Guess: a number comes to all ranks as it is, as all_reduce and all_gather of the same module keep it.
# Seen:  as a 32-bit float, on the rank that sent it too: a seed or a count of samples above 2^24 is another one.
# > all_gather(16777217): [16777217, 16777217]
# > broadcast(16777217): 16777216.0, broadcast(0.1): 0.10000000149011612
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 pytorch-ignite==0.5.5 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import ignite.distributed as idist
import torch.distributed as dist
import torch.multiprocessing as mp

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    gathered = idist.all_gather(16777217)
    count = idist.broadcast(16777217, src=0)
    rate = idist.broadcast(0.1, src=0)
    if rank == 0:
        print(f'all_gather(16777217): {gathered}')
        print(f'broadcast(16777217): {count}, broadcast(0.1): {rate}', flush=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
