"""What PyTorch makes of a training job of ours: the same data, weights, order and optimizer, all by
its own means. Nothing in here was learnt from our programs' output."""
import os, sys
from types import SimpleNamespace
import torch
from torch import nn
from torch.utils.data.distributed import DistributedSampler

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "pytorch"))
from twin import MEAN, OPTIMIZERS, STD, Net, dataset_init, model_loss  # noqa: F401 (others take MEAN and STD from here)

torch.set_num_threads(1)


def digits_split(split):
    return dataset_init(SimpleNamespace(dataset="digits", num_samples=0), split).tensors


def random_rows(size):
    """Row by row, as the PyTorch series draws them, from the generator as it stands."""
    return dataset_init(SimpleNamespace(dataset="random", dataset_size=size, num_samples=0), "train").tensors


class Job:
    """A job straight after its start: seed, data, weights. `options` are those of our programs."""

    def __init__(self, options, world=1):
        self.options, self.world = options, world
        torch.manual_seed(options.get("seed", 0))
        if options["model"] == "linear":
            self.inputs, self.targets = random_rows(options.get("dataset-size", 2048))
            self.model = nn.Linear(20, 1)
        else:
            self.inputs, self.targets = digits_split("train")
            self.model = Net()
        self.loss = model_loss
        self.model.eval()  # no dropout
        self.size = options.get("num-samples", len(self.inputs))
        self.optimizer = make_optimizer(self.model, options)
        steps_per_epoch = -(-self.size // (options.get("batch-size", 32) * world))  # rounded up
        self.scheduler = make_scheduler(self.optimizer, options, steps_per_epoch)

    def batches(self):
        """(rows of rank 0, rows of rank 1, ...) for every step."""
        samplers = [DistributedSampler(range(self.size), self.world, rank, shuffle=True,
                                       seed=self.options.get("seed", 0))
                    for rank in range(self.world)]
        batch = self.options["batch-size"]
        for epoch in range(self.options["epochs"]):
            for sampler in samplers:
                sampler.set_epoch(epoch)
            orders = [list(sampler) for sampler in samplers]
            for begin in range(0, len(orders[0]), batch):
                yield [order[begin:begin + batch] for order in orders]

    def step(self, batches):
        """What DDP does, in one process: the gradient is the mean of those of the ranks. Returns
        each rank's loss."""
        self.optimizer.zero_grad()
        losses = [self.loss(self.model(self.inputs[rows]), self.targets[rows]) for rows in batches]
        for loss in losses:
            loss.backward()  # adds up
        for parameter in self.model.parameters():
            parameter.grad /= self.world
        if self.options.get("clip-norm"):
            nn.utils.clip_grad_norm_(self.model.parameters(), self.options["clip-norm"])
        self.optimizer.step()
        self.scheduler.step()
        return [loss.item() for loss in losses]

    def train(self, first=0):
        """The losses of every rank in the steps after this many, up to max-steps."""
        steps = list(self.batches())[first:self.options.get("max-steps")]
        return list(zip(*(self.step(batches) for batches in steps)))


def make_optimizer(model, options):
    given = {"lr": options["lr"], "weight_decay": options.get("weight-decay", 0)}
    if options["optimizer"] == "sgd":
        given["momentum"] = options.get("momentum", 0)
    return OPTIMIZERS[options["optimizer"]](model.parameters(), **given)


def make_scheduler(optimizer, options, steps_per_epoch):
    """As common/nn/device.h has it."""
    rates = torch.optim.lr_scheduler
    warmup, name = options.get("warmup-steps", 0), options.get("lr-schedule", "constant")
    if name == "step":
        main = rates.StepLR(optimizer, step_size=steps_per_epoch, gamma=0.7)
    elif name == "cosine":
        main = rates.CosineAnnealingLR(optimizer, T_max=options["epochs"] * steps_per_epoch - warmup)
    else:
        main = rates.ConstantLR(optimizer, factor=1)
    if warmup == 0:
        return main
    linear = rates.LinearLR(optimizer, start_factor=1 / (warmup + 1), total_iters=warmup)
    return rates.SequentialLR(optimizer, [linear, main], milestones=[warmup])
