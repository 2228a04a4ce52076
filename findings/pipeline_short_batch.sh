#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.distributed.pipelining, ScheduleGPipe of two microbatches, eval() of a short last batch
# Guess: 3 samples give 3 outputs, or are refused as microbatches of 2 and 1.
# Seen:  4 outputs, without a word: the second stage takes the short microbatch for as large as the first, and the row
#        that nobody sent is one of what lay in memory.
# > 4 samples 1 2 3 4: 4 outputs 1 2 3 4
# > 3 samples 5 6 7: 4 outputs, of which the first are 5 6 7
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

def show(rank, world, *samples):
    same = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(same.weight)
    schedule = ScheduleGPipe(PipelineStage(same, rank, world, torch.device('cpu')), 2)
    batch = torch.tensor(samples).view(-1, 1)
    output = schedule.eval(*[batch] * (rank == 0))
    if rank == world - 1:
        numbers = [f'{number:g}' for number in output.flatten().tolist()]
        more = '' if len(numbers) == len(samples) else ', of which the first are'
        print(f'{len(samples)} samples', *(f'{number:g}' for number in samples), end=': ')
        print(f'{len(numbers)} outputs{more}', *numbers[:len(samples)], flush=True)

def run(rank, path, world):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    show(rank, world, 1., 2., 3., 4.)
    show(rank, world, 5., 6., 7.)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
