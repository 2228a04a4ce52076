"""Usage: tensor_parallel.py      The losses and weights of beyond/tensor_parallel beside PyTorch's parallelize_module.

ColwiseParallel for fc1 and RowwiseParallel for fc2, over gloo: two ranks, and two replicas of two ranks under DDP. One
process of PyTorch with the whole model, and the whole batch, says how far apart its own two ways are."""
import sys
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.tensor.parallel.ddp import _pre_dp_module_transform
from torch.nn.parallel import DistributedDataParallel
import ours, reference

STEPS, TOLERANCE = 20, 2e-6
SEEDS = 2, 3, 4, 5
MLP_WIDTH, MLP_LAYERS = 28 * 28, 8


class Mlp(nn.Module):
    """common/nn/model.c's mlp: eight equal layers, relu between them, and log_softmax."""

    def __init__(self):
        super().__init__()
        for i in range(MLP_LAYERS):
            setattr(self, "fc%d" % (i + 1), nn.Linear(MLP_WIDTH, MLP_WIDTH))

    def forward(self, x):
        x = x.flatten(1)
        for i in range(MLP_LAYERS):
            x = getattr(self, "fc%d" % (i + 1))(x)
            x = x.relu() if i + 1 < MLP_LAYERS else x.log_softmax(1)
        return x


def job_of(options, replicas):
    job = reference.Job(options, replicas)
    if options["model"] == "mlp":
        torch.manual_seed(options["seed"])
        job.model = Mlp()
        job.optimizer = reference.make_optimizer(job.model, options)
    return job


def whole(model, name):
    """A weight by its name. Under DDP a part is an attribute of its layer, and no longer in the state_dict."""
    layer, _, weight = name.rpartition(".")
    tensor = getattr(model.get_submodule(layer), weight)
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().numpy().copy()


def step(job, model, optimizer, rows):
    optimizer.zero_grad()
    loss = job.loss(model(job.inputs[rows]), job.targets[rows])
    loss.backward()
    optimizer.step()
    return loss.item()


def rank_main(rank, world, options, tensor_ranks):
    """The losses of this rank's replica, and all weights."""
    mesh = init_device_mesh("cpu", (world // tensor_ranks, tensor_ranks), mesh_dim_names=("data", "tensor"))
    job = job_of(options, world // tensor_ranks)
    names = list(job.model.state_dict())
    layers = [name for name, module in job.model.named_modules() if isinstance(module, nn.Linear)]
    plan = {name: (ColwiseParallel, RowwiseParallel)[i % 2]() for i, name in enumerate(layers)}
    model = parallelize_module(job.model, mesh["tensor"], plan)
    replica = mesh["data"].get_local_rank()
    if world > tensor_ranks:
        _pre_dp_module_transform(model)  # DDP broadcasts and averages each rank's parts, since it knows no DTensor
        model = DistributedDataParallel(model, process_group=mesh["data"].get_group())
    optimizer = reference.make_optimizer(model, options)
    losses = [step(job, model, optimizer, rows[replica]) for rows in list(job.batches())[:STEPS]]
    inner = model.module if world > tensor_ranks else model
    return losses, {name: whole(inner, name) for name in names}


def one_process(options, replicas):
    job = job_of(options, replicas)
    losses = [job.step(batches) for batches in list(job.batches())[:STEPS]]
    return list(zip(*losses)), {name: whole(job.model, name) for name in job.model.state_dict()}


def far_apart(model, world, batch, seed):
    """The largest difference between PyTorch's parts and ours, in a loss or a weight."""
    options = {"model": model, "optimizer": "sgd", "lr": 0.01, "momentum": 0.9, "epochs": 1, "batch-size": batch, "seed": seed}
    results = ours.ranks(rank_main, world, options, 2)
    theirs = [results[rank][0] for rank in range(world)], results[0][1]
    mine = ours.aside("tensor_parallel/train_tensor_parallel", options, world, STEPS)
    single = one_process(options, world // 2)
    split = [single[0][rank // 2] for rank in range(world)], single[1]
    print("%s on %d ranks: PyTorch's parts and ours differ by %.1e in a loss and %.1e in a weight; PyTorch's own two ways by "
          "%.1e and %.1e" % (model, world, *ours.far(mine, theirs), *ours.far(theirs, split)), flush=True)
    return max(ours.far(mine, theirs))


def main():
    for setting in ("cnn", 2, 16), ("cnn", 4, 8), ("mlp", 2, 8):
        ours.agree_with_one((far_apart(*setting, seed) for seed in SEEDS), TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
