#!/usr/bin/env python3
"""Usage: bench/linear_step.py [epochs]     What linear_step.c measures, in PyTorch: the same numbers, order, loss."""
import json, statistics, sys, time
import torch
import torch.nn.functional as F

ROWS, BATCH = 2048, 32
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 300
torch.set_num_threads(1)  # more only wait for each other here
torch.manual_seed(0)
rows = [(torch.rand(20), torch.rand(1)) for _ in range(ROWS)]
inputs, targets = torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])
model = torch.nn.Linear(20, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
times = []
for epoch in range(epochs):
    begin = time.monotonic()
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch))
    for batch in order.split(BATCH):
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs[batch]), targets[batch])
        loss.backward()
        optimizer.step()
    times.append(time.monotonic() - begin)
print("loss %.9g" % loss.item(), file=sys.stderr)
print(json.dumps({"case": "linear model, batch %d" % BATCH, "value": ROWS / BATCH / statistics.median(times),
                  "unit": "steps/s"}))
