#!/bin/sh
# Tool:  PyTorch 2.15.0, all_reduce of its Gloo backend
# Guess: MAX with a NaN on any rank gives NaN, as SUM and torch.max do.
# Seen:  only a NaN of rank 0 survives; that of another rank is lost, on all ranks alike.
# > MAX: NaN on rank 0 gives nan, on rank 1 gives 0.0, on rank 2 gives 1.0
# > MIN: NaN on rank 0 gives nan, on rank 1 gives 0.0, on rank 2 gives 0.0
# > SUM: NaN on rank 0 gives nan, on rank 1 gives nan, on rank 2 gives nan
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    for op in 'MAX', 'MIN', 'SUM':
        results = []
        for holder in range(world):
            x = torch.tensor([float('nan') if rank == holder else float(rank)])
            dist.all_reduce(x, getattr(dist.ReduceOp, op))
            results.append(f'on rank {holder} gives {x.item()}')
        print(f'{op}: NaN ' + ', '.join(results), flush=True)
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 3), 3)
EOF
python "$tmp/ranks.py" "$tmp/store" | sort -u | verdict
