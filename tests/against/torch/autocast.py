#!/usr/bin/env python3
"""Usage: tests/against/torch/autocast.py      Writes tests/golden/losses/digits_autocast_w1.rank0.json: the losses of
real PyTorch under torch.autocast with bf16, for tests/cuda/cudnn.bats. They come from its CPU; on a GPU autocast computes
log_softmax in float32, so it does here."""
import json, os
import torch
from reference import Job

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden", "losses")
ARGS = {"model": "cnn", "dataset": "digits", "epochs": 1, "max_steps": 60, "batch_size": 8, "lr": 0.01, "momentum": 0.0,
        "optimizer": "sgd", "dropout": 0, "seed": 0, "bf16": 1}

log_softmax = torch.nn.functional.log_softmax
torch.nn.functional.log_softmax = lambda logits, *rest, **named: log_softmax(logits.float(), *rest, **named)
job = Job({"model": "cnn", "epochs": 1, "batch-size": ARGS["batch_size"], "lr": ARGS["lr"], "momentum": ARGS["momentum"],
           "optimizer": "sgd"})
losses = []
for (rows,) in list(job.batches())[:ARGS["max_steps"]]:
    job.optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = job.model(job.inputs[rows])
    loss = job.loss(outputs.float(), job.targets[rows])
    loss.backward()
    job.optimizer.step()
    losses.append(loss.item())
with open(os.path.join(GOLDEN, "digits_autocast_w1.rank0.json"), "w") as file:
    json.dump({"args": ARGS, "world": 1, "rank": 0, "torch": torch.__version__, "losses": losses}, file)
    file.write("\n")
