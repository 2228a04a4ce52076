#!/bin/sh
# Tool:  PyTorch 2.15.0, the flight recorder with its Gloo backend, and torchfrtrace, which reads its dumps
# Guess: a collective that has ended is in state "completed", and torchfrtrace prints a table of it.
# Seen:  its state stays "scheduled", though "retired" is true, and torchfrtrace ends in a KeyError.
# > rank 0: gloo:all_reduce scheduled, retired: True
# > torchfrtrace: KeyError: ('0', 1)
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

cat >"$tmp/ranks.py" <<'EOF'
import pickle
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch._C._distributed_c10d import _dump_fr_trace

def run(rank, folder, world):
    dist.init_process_group('gloo', store=dist.FileStore(f'{folder}/store', world), rank=rank, world_size=world)
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    dump = _dump_fr_trace()
    with open(f'{folder}/dumps/rank{rank}', 'wb') as file:
        file.write(dump)
    entry = pickle.loads(dump)['entries'][0]
    if rank == 0:
        print(f'rank 0: {entry["profiling_name"]} {entry["state"]}, retired: {entry["retired"]}', flush=True)
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
mkdir "$tmp/dumps"
{
    TORCH_FR_BUFFER_SIZE=100 python "$tmp/ranks.py" "$tmp"
    python -m torch.distributed.flight_recorder.fr_trace "$tmp/dumps" -p rank >"$tmp/table" 2>&1 || true
    echo "torchfrtrace: $(tail -n 1 "$tmp/table")"
} | verdict
