#!/usr/bin/env python3
"""Usage: bench/rows.py     What rows.c measures, with PyTorch's DistributedSampler and DataLoader."""
import json
import statistics
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.set_num_threads(1)
ROWS, BATCH, RANKS, EPOCHS = 60000, 64, 4, 5
dataset = TensorDataset(torch.zeros(ROWS, 784), torch.zeros(ROWS, dtype=torch.int64))
sampler = DistributedSampler(dataset, num_replicas=RANKS, rank=0, seed=0)
loader = DataLoader(dataset, batch_size=BATCH, sampler=sampler, num_workers=0)
times = {"sampler": [], "loader": []}
for epoch in range(EPOCHS):
    for name, visited in ("sampler", sampler), ("loader", loader):
        sampler.set_epoch(epoch + 1)
        begin = time.monotonic()
        for _ in visited:
            pass
        times[name].append(time.monotonic() - begin)
print(json.dumps({"case": "sampler, an epoch", "value": 1e3 * statistics.median(times["sampler"]), "unit": "ms"}))
print(json.dumps({"case": "loader, batches of 64", "value": len(loader) / statistics.median(times["loader"]),
                  "unit": "batches/s"}))
