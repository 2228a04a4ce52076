#!/bin/sh
# Tool:  PyTorch 2.15.0, all_reduce of torch.distributed.nn.functional with MAX and PRODUCT, on ranks with 1 and 2
# Guess: the gradient of a maximum goes to the rank that has it, of a product to each factor times the other; or refused.
# Seen:  backward reduces the incoming gradients, all 1, by the same operation: 1 for each, whatever its number was.
# > SUM 3: gradients 2 and 2, should be 2 and 2
# > MAX 2: gradients 1 and 1, should be 0 and 2
# > PRODUCT 2: gradients 1 and 1, should be 4 and 2
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

def right(reduce):
    x = torch.tensor([1., 2.], requires_grad=True)
    (2 * reduce(x)).backward() # the sum of what both ranks get
    return x.grad.tolist()

def show(rank, world, name, reduce):
    x = torch.tensor(1. + rank, requires_grad=True)
    y = all_reduce(x * 1, op=getattr(dist.ReduceOp, name))
    y.backward()
    seen = [None] * world
    dist.all_gather_object(seen, x.grad.item())
    if rank == 0:
        should = right(reduce)
        print(f'{name} {y.item():g}: gradients {seen[0]:g} and {seen[1]:g}, should be {should[0]:g} and {should[1]:g}', flush=True)

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    show(rank, world, 'SUM', torch.sum)
    show(rank, world, 'MAX', torch.max)
    show(rank, world, 'PRODUCT', torch.prod)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
