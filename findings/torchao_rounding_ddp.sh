#!/bin/sh
# Tool:  torchao 0.18.0 with PyTorch 2.15.0, _AdamW(bf16_stochastic_round=True) under DistributedDataParallel
# Guess: DDP gives all ranks one gradient, so all ranks make the same step.
# Seen:  each rank rounds by its own random numbers: seeded by rank, as for dropout, the ranks' models part at the first step.
# > to nearest: ranks alike after 3 steps
# > bf16_stochastic_round: ranks differ after 3 steps
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 torchao==0.18.0 numpy==2.4.6
command -v g++ >/dev/null || cannot "torchao's optimizers compile their step with g++"
export TORCHINDUCTOR_CACHE_DIR="$tmp/compiled" TORCHINDUCTOR_COMPILE_THREADS=1

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torchao.optim import _AdamW

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    torch.manual_seed(rank)
    x = torch.ones(2, 64, dtype=torch.bfloat16)
    for stochastic in False, True:
        model = DistributedDataParallel(torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16))
        optimizer = _AdamW(model.parameters(), bf16_stochastic_round=stochastic)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        weight = model.module.weight.detach()
        weights = [torch.empty_like(weight) for _ in range(world)]
        dist.all_gather(weights, weight)
        if rank == 0:
            name = 'bf16_stochastic_round' if stochastic else 'to nearest'
            print(f"{name}: ranks {'alike' if weights[0].equal(weights[1]) else 'differ'} after 3 steps", flush=True)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
