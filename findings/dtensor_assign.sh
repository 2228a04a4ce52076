#!/bin/sh
# Tool:  PyTorch 2.15.0, DTensor (what FSDP2's parameters are), sharded by rows, one of which is to be set to 0
# Guess: set on the rank that has the row, or refused.
# Seen:  x[i] = 0 and x[i:j].zero_() go into a gathered copy: the weights stay, without a word. mul_() by a mask is right.
# > fully_shard(Embedding), weight[0] = 0: row 0 is 1 1
# > fully_shard(Embedding), weight[0:1].zero_(): row 0 is 1 1
# > fully_shard(Embedding), weight.mul_(mask): row 0 is 0 0
# > Embedding, weight[0] = 0: row 0 is 0 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

def assign(weight):
    weight[0] = 0

def zero(weight):
    weight[0:1].zero_()

def multiply(weight):
    mask = torch.tensor([[0.], [1.], [1.], [1.]])
    weight.mul_(distribute_tensor(mask, weight.device_mesh, [Shard(0)]))

def show(rank, name, change, shard=True):
    embedding = torch.nn.Embedding(4, 2)
    torch.nn.init.ones_(embedding.weight)
    if shard:
        fully_shard(embedding)
    weight = embedding.weight
    with torch.no_grad():
        change(weight)
    whole = weight.full_tensor() if isinstance(weight, DTensor) else weight
    if rank == 0:
        print(f"{'fully_shard(Embedding)' if shard else 'Embedding'}, {name}: row 0 is", *whole[0].int().tolist(), flush=True)

def run(rank, path, world):
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    show(rank, 'weight[0] = 0', assign)
    show(rank, 'weight[0:1].zero_()', zero)
    show(rank, 'weight.mul_(mask)', multiply)
    show(rank, 'weight[0] = 0', assign, shard=False)
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
