#!/bin/sh
# Tool:  PyTorch 2.15.0, ZeroRedundancyOptimizer
# Guess: steps after consolidate_state_dict make state_dict() refuse until it is called again, as it does before the first call.
# Seen:  state_dict() joins rank 0's state of now with the other rank's of then, without a word.
# > before consolidate_state_dict: RuntimeError
# > consolidated after step 1, saved after step 3: Adam's steps [3, 1, 3, 1]
# > consolidated again: Adam's steps [3, 3, 3, 3]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.optim import ZeroRedundancyOptimizer

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    parameters = [torch.nn.Parameter(torch.zeros(4)) for _ in range(4)]
    optimizer = ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.1)

    def step():
        for parameter in parameters:
            parameter.grad = torch.ones(4)
        optimizer.step()

    def show(when):
        if rank == 0:
            try:
                state = optimizer.state_dict()['state']
                print(f"{when}: Adam's steps", [int(state[i]['step']) for i in range(4)], flush=True)
            except RuntimeError as error:
                print(f'{when}: {type(error).__name__}', flush=True)

    step()
    show('before consolidate_state_dict')
    optimizer.consolidate_state_dict(to=0)
    step()
    step()
    show('consolidated after step 1, saved after step 3')
    optimizer.consolidate_state_dict(to=0)
    show('consolidated again')
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, (sys.argv[1], 2), 2)
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
