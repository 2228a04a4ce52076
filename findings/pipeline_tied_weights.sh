#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.distributed.pipelining, pipeline() of a model whose two layers share a weight, one a stage
# Guess: refused, or the stages' gradients of the shared weight are added.
# Seen:  each stage has a copy with its own part of the gradient, without a word: after a step the copies differ.
# > one process: gradient of the shared weight 5
# > stage 0: gradient 2
# > stage 1: gradient 3
# > after a step: weights differ
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline

class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(1, 1, bias=False)
        self.last = torch.nn.Linear(1, 1, bias=False)
        self.last.weight = self.first.weight
        torch.nn.init.ones_(self.first.weight)

    def forward(self, x):
        return self.last(self.first(x) + 1)

def loss(output, target):
    return (output - target).mean()

def run(rank, path, world):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    x, target = torch.tensor([[1.], [3.]]), torch.zeros(2, 1)
    model = Tied()
    loss(model(x), target).backward()
    whole = model.first.weight.grad.item()
    pipe = pipeline(Tied(), (x[:1],), split_spec={'last': SplitPoint.BEGINNING})
    stage = pipe.build_stage(rank, torch.device('cpu'))
    schedule = ScheduleGPipe(stage, 2, loss_fn=loss)
    schedule.step(*[x] * (rank == 0), **{'target': target} if rank else {})
    (weight,) = [p for p in stage.submod.parameters() if p.grad is not None]
    torch.optim.SGD([weight], lr=1.).step()
    seen = [None] * world
    dist.all_gather_object(seen, (weight.grad.item(), weight.item()))
    if rank == 0:
        print(f'one process: gradient of the shared weight {whole:g}')
        for number, (gradient, _) in enumerate(seen):
            print(f'stage {number}: gradient {gradient:g}')
        print('after a step: weights', 'alike' if seen[0][1] == seen[1][1] else 'differ', flush=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
