#!/bin/sh
# Tool:  PyTorch 2.15.0, PeriodicModelAverager
# Guess: with period=4 the ranks average after steps 4, 8 and 12, and warmup_steps=2 moves that by two.
# Seen:  they average after step 1, 5 and 9: the last steps of a run of 12 are in no average, and ranks end with models of their own.
# > period=4: averages after steps 1, 5, 9
# > period=4, warmup_steps=2: averages after steps 3, 7, 11
# > after step 12, the ranks' parameters are 0.0 and 1.0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    for options in {'period': 4}, {'period': 4, 'warmup_steps': 2}:
        averager = PeriodicModelAverager(**options)
        parameter = torch.nn.Parameter(torch.zeros(1))
        parameter.grad = torch.zeros(1)  # without a gradient it is none of the model's
        steps = []
        for step in range(1, 13):
            parameter.data.fill_(rank)  # where the optimizer's step would be
            averager.average_parameters([parameter])
            if parameter.item() == 0.5:
                steps.append(str(step))
        if rank == 0:
            print(', '.join(f'{name}={value}' for name, value in options.items()), end='')
            print(': averages after steps', ', '.join(steps))
    ends = [None] * world
    dist.all_gather_object(ends, parameter.item())
    if rank == 0:
        print('after step 12, the ranks\' parameters are', ' and '.join(map(str, ends)))
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
