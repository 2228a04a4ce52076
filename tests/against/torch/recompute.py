"""Usage: recompute.py      The losses and weights of beyond/recompute beside PyTorch's checkpoint_sequential.

Two ranks under DDP, over gloo: eight equal layers in four segments, as SEGMENT_LAYERS 2 is. One program has DDP without
recomputation, too: there it must be the same bits, as here."""
import sys
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint_sequential
import ours, reference

STEPS, WORLD, TOLERANCE = 20, 2, 2e-6
OPTIONS = {"model": "mlp", "optimizer": "sgd", "lr": 0.01, "momentum": 0.9, "epochs": 1, "batch-size": 8, "seed": 2}
WIDTH, LAYERS, SEGMENTS = 28 * 28, 8, 4


class Mlp(nn.Module):
    """common/nn/model.c's mlp; `calls` counts how often a layer has computed."""

    def __init__(self, segments):
        super().__init__()
        self.segments, self.calls = segments, 0
        for i in range(LAYERS):
            setattr(self, "fc%d" % (i + 1), nn.Linear(WIDTH, WIDTH))

    def layer(self, i):
        def compute(x):
            self.calls += 1
            y = getattr(self, "fc%d" % (i + 1))(x)
            return y.relu() if i + 1 < LAYERS else y.log_softmax(1)
        return compute

    def forward(self, x):
        layers, x = [self.layer(i) for i in range(LAYERS)], x.flatten(1)
        if self.segments > 0:
            return checkpoint_sequential(layers, self.segments, x, use_reentrant=False)
        for layer in layers:
            x = layer(x)
        return x


def rank_main(rank, world, segments):
    """This rank's losses, all weights, and how many layers have computed."""
    job = reference.Job(OPTIONS, world)
    torch.manual_seed(OPTIONS["seed"])
    job.model = Mlp(segments)
    model = DistributedDataParallel(job.model)
    optimizer, losses = reference.make_optimizer(model, OPTIONS), []
    for rows in list(job.batches())[:STEPS]:
        optimizer.zero_grad()
        loss = job.loss(model(job.inputs[rows[rank]]), job.targets[rows[rank]])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: tensor.numpy().copy() for name, tensor in job.model.state_dict().items()}, job.model.calls


def main():
    kept, again = (ours.ranks(rank_main, WORLD, segments) for segments in (0, SEGMENTS))
    theirs, without = (([results[rank][0] for rank in range(WORLD)], results[0][1]) for results in (again, kept))
    mine, calls = ours.aside("recompute/train_recompute", OPTIONS, WORLD, STEPS), [results[0][2] // STEPS for results in (kept, again)]
    print("mlp on %d ranks: checkpoint_sequential and ours differ by %.1e in a loss and %.1e in a weight; it and PyTorch's DDP "
          "by %.1e and %.1e; layers computed in a step: %d of DDP, %d with it" %
          (WORLD, *ours.far(mine, theirs), *ours.far(theirs, without), *calls), flush=True)
    assert max(ours.far(mine, theirs)) <= TOLERANCE
    assert max(ours.far(theirs, without)) == 0
    assert calls[0] == LAYERS < calls[1]  # else it has not computed anything again


if __name__ == "__main__":
    sys.exit(main())
