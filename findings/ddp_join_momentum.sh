#!/bin/sh
# Tool:  PyTorch 2.15.0, DistributedDataParallel.join(), for ranks with unequal numbers of batches
# Guess: after the epoch, all ranks hold the same model and go on as one.
# Seen:  the same parameters, but each rank its own momentum: in the next epoch they step apart, until join ends it.
# > epoch 0, 2 and 3 batches: parameter -1.875 and -1.875, momentum 1.5 and 1.25
# > epoch 1, after its first step: parameter -2.75 and -2.6875
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)

    def of_ranks(tensor):
        values = [None] * world
        dist.all_gather_object(values, tensor.item())
        return ' and '.join(map(str, values))

    def epoch(batches):
        with model.join():
            for _ in range(batches):
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
                yield layer.weight.detach().clone()

    list(epoch(2 + rank))
    ends = of_ranks(layer.weight), of_ranks(optimizer.state[layer.weight]['momentum_buffer'])
    first = of_ranks(list(epoch(2 + rank))[0])
    if rank == 0:
        print(f'epoch 0, 2 and 3 batches: parameter {ends[0]}, momentum {ends[1]}')
        print(f'epoch 1, after its first step: parameter {first}', flush=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
