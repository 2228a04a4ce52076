#!/bin/sh
# Tool:  pytorch-ignite 0.5.5 with PyTorch 2.15.0, an Engine on auto_dataloader(shuffle=True)
# Guess: ignite, which made the DistributedSampler, tells it each epoch, as Lightning and accelerate do.
# Seen:  nobody does: every epoch has the order of the first, and a rank never sees the other's samples.
# > rank 0: epoch 1 has 4 7 3 0 6, epoch 2 has 4 7 3 0 6
# > rank 1: epoch 1 has 1 5 9 8 2, epoch 2 has 1 5 9 8 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 pytorch-ignite==0.5.5 numpy==2.4.6

cat >"$tmp/ranks.py" <<'EOF'
import logging
import sys
import ignite.distributed as idist
import torch.distributed as dist
import torch.multiprocessing as mp
from ignite.engine import Engine

def run(rank, path, world):
    logging.disable(logging.INFO)
    dist.init_process_group('gloo', store=dist.FileStore(path, world), rank=rank, world_size=world)
    epochs = []

    def note(engine, batch):
        if engine.state.epoch > len(epochs):
            epochs.append([])
        epochs[-1] += batch.tolist()

    Engine(note).run(idist.auto_dataloader(list(range(10)), batch_size=4, shuffle=True), max_epochs=2)
    for turn in range(world):
        if turn == rank:
            orders = [' '.join(map(str, epoch)) for epoch in epochs]
            print(f'rank {rank}: epoch 1 has {orders[0]}, epoch 2 has {orders[1]}', flush=True)
        dist.barrier()
    dist.destroy_process_group()

mp.start_processes(run, (sys.argv[1], 2), 2, start_method='fork')
EOF
python "$tmp/ranks.py" "$tmp/store" 2>"$tmp/errors" | verdict
