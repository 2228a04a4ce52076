#!/bin/sh
# Tool:  ray 2.60.0 with PyTorch 2.15.0, ray.train.torch.prepare_data_loader, in Ray Train's local mode under torchrun
# Guess: a loader with a batch_sampler is shared among the ranks, or refused; other samplers give a warning, after all.
# Seen:  no warning: batch sampler and batches go. Single rows come, in the data's order; a model takes them for a batch.
# > 2 ranks, DataLoader(data, 4, shuffle=True): 1 batch of [4, 1]
# > 2 ranks, DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, False)): 4 batches of [1]: 0 2 4 6
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 'ray[train]==2.60.0' numpy==2.4.6
export RAY_TRAIN_V2_ENABLED=1 RAY_USAGE_STATS_ENABLED=0

cat >"$tmp/rank.py" <<'EOF'
import ray.train
import torch
from ray.train.torch import TorchTrainer, prepare_data_loader
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

data = TensorDataset(torch.arange(8.).view(8, 1))

def show(name, loader):
    batches = [rows for (rows,) in prepare_data_loader(loader)]
    shape = list(batches[0].shape)
    if ray.train.get_context().get_world_rank() == 0:
        print(f"2 ranks, {name}: {len(batches)} batch{'es' * (len(batches) > 1)} of {shape}", end='')
        print(':' if len(shape) == 1 else '', *[int(rows) for rows in batches if len(shape) == 1], flush=True)

def train():
    show('DataLoader(data, 4, shuffle=True)', DataLoader(data, 4, shuffle=True))
    show('DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, False))',
         DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, False)))

TorchTrainer(train, scaling_config=ray.train.ScalingConfig(num_workers=0)).fit()
EOF
torchrun --standalone --nproc-per-node 2 "$tmp/rank.py" 2>"$tmp/errors" | grep '^2 ranks' | verdict
