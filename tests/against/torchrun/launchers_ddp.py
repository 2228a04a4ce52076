"""DistributedDataParallel in a few lines: a small model, random batches, five steps on gloo."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)  # weights of its own, which DDP replaces by rank 0's
    model = DDP(torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ReLU(), torch.nn.Linear(10, 5)))
    loss_fn = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(5):
        optimizer.zero_grad()
        loss = loss_fn(model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach_())
        if rank == 0:
            print(f"Epoch 0 | Step {step} | Loss {loss.item() / dist.get_world_size():.9f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # PyTorch 2.15 aborts now and then while Python ends it ("terminate called without an active
    # exception", 2 of 10 runs on a busy machine, under torchrun too): nothing is left to be ended.
    os._exit(0)
