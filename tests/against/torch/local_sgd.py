"""Usage: local_sgd.py average|diloco|streaming      The weights after some steps of the asides in beyond/local_sgd, beside PyTorch.

average: PeriodicModelAverager over gloo. diloco: torch.optim.SGD with nesterov=True as the outer optimizer. streaming: one
such optimizer for each fragment, whose all_reduce runs while the next steps compute."""
import sys
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
import ours, reference

PERIOD, LR, MOMENTUM = 8, 0.7, 0.9  # as train_local_sgd.c and train_diloco.c have them
FRAGMENTS, OVERLAP, MIX = 4, 2, 0.5  # as train_streaming.c has them
SEEDS = 7, 2, 3, 4, 5
STEPS, TOLERANCE = 21, 1e-5  # two rounds, and one that the end cuts short, with a fragment on its way


class Average:
    def __init__(self, model):
        self.model = model
        # It averages where step % period == 0, and counts from 0: the first steps are left out.
        self.averager = PeriodicModelAverager(period=PERIOD, warmup_steps=PERIOD - 1)

    def after_step(self, steps):
        self.averager.average_parameters(self.model.parameters())

    def end_round(self):
        self.averager.step = self.averager.warmup_steps
        self.averager.average_parameters(self.model.parameters())


class Outer:
    def __init__(self, model):
        self.model = model
        self.begin = [p.detach().clone() for p in model.parameters()]
        self.optimizer = torch.optim.SGD(self.begin, lr=LR, momentum=MOMENTUM, nesterov=True)

    def after_step(self, steps):
        if steps % PERIOD == 0:
            self.end_round()

    @torch.no_grad()
    def end_round(self):
        for begin, p in zip(self.begin, self.model.parameters()):
            begin.grad = begin - p
            dist.all_reduce(begin.grad)
            begin.grad /= dist.get_world_size()
        self.optimizer.step()
        for begin, p in zip(self.begin, self.model.parameters()):
            p.copy_(begin)


class Streaming:
    """Fragments of the vector of all parameters, in PyTorch's order of them, with the channels last in each, as ours."""

    def __init__(self, model):
        self.parameters = [self.channels_last(name, p.detach()) for name, p in model.named_parameters()]
        self.begin = self.fragments(self.vector())
        self.optimizers = [torch.optim.SGD([fragment], lr=LR, momentum=MOMENTUM, nesterov=True) for fragment in self.begin]
        self.due = {}  # fragment: (the step in which its result is used, its all_reduce)

    @staticmethod
    def channels_last(name, p):
        """A view of a parameter: filters [out][y][x][in]; of fc1, whose inputs are 64 channels of 12 x 12, as well."""
        if name == "fc1.weight":
            p = p.view(len(p), 64, 12, 12)
        return p.permute(0, 2, 3, 1) if p.dim() == 4 else p

    def vector(self):
        return torch.cat([p.reshape(-1) for p in self.parameters])

    @staticmethod
    def fragments(vector):
        return list(vector.tensor_split([len(vector) * number // FRAGMENTS for number in range(1, FRAGMENTS)]))

    def start(self, number, due):
        fragment = self.begin[number]
        fragment.grad = fragment - self.fragments(self.vector())[number]
        self.due[number] = due, dist.all_reduce(fragment.grad, async_op=True)

    def finish(self, number, mix):
        self.due.pop(number)[1].wait()
        self.begin[number].grad /= dist.get_world_size()
        self.optimizers[number].step()
        vector = self.vector()
        self.fragments(vector)[number].mul_(mix).add_(self.begin[number], alpha=1 - mix)
        for p, value in zip(self.parameters, vector.split([p.numel() for p in self.parameters])):
            p.copy_(value.view(p.shape))

    def after_step(self, steps):
        for number in [number for number, (due, _) in self.due.items() if due == steps]:
            self.finish(number, MIX)
        if steps % (PERIOD // FRAGMENTS) == 0:  # each second step it is the next one's turn
            self.start((steps // (PERIOD // FRAGMENTS) - 1) % FRAGMENTS, steps + OVERLAP)

    def end_round(self):
        for number in range(FRAGMENTS):
            if number in self.due:
                self.finish(number, MIX)
            self.start(number, None)
            self.finish(number, 0)


def rank_main(rank, world, kind, options):
    job = reference.Job(options, world)
    optimizer, rounds = reference.make_optimizer(job.model, options), kind(job.model)
    for steps, batches in enumerate(list(job.batches())[:STEPS], 1):
        optimizer.zero_grad()
        job.loss(job.model(job.inputs[batches[rank]]), job.targets[batches[rank]]).backward()
        optimizer.step()
        rounds.after_step(steps)
    rounds.end_round()
    return {name: value.detach().numpy().copy() for name, value in job.model.state_dict().items()}


def far_apart(program, kind, world, options):
    due = ours.ranks(rank_main, world, kind, options)
    _, weights = ours.aside("local_sgd/" + program, options, world, STEPS)
    assert due[0].keys() <= weights.keys()
    error = max(float(abs(weights[name] - torch.from_numpy(value)).max() / abs(value).max()) for name, value in due[0].items())
    print("%s, %s, seed %d, %s on %d ranks: off by %.1e" % (program, options["model"], options["seed"], options["optimizer"], world, error), flush=True)
    return error


def compare(program, kind):
    for model, optimizer, world, more in (("linear", "sgd", 2, {"lr": 0.01, "momentum": 0.9}),
                                          ("linear", "adam", 3, {"lr": 0.01}),
                                          ("cnn", "sgd", 2, {"lr": 0.01, "momentum": 0.9})):
        options = {"model": model, "optimizer": optimizer, "epochs": 1, "batch-size": 8, **more}
        seeds = SEEDS if model == "cnn" else SEEDS[:1]  # linear has no pooling
        ours.agree_with_one((far_apart(program, kind, world, {**options, "seed": seed}) for seed in seeds), TOLERANCE)


if __name__ == "__main__":
    compare(*{"average": ("train_local_sgd", Average), "diloco": ("train_diloco", Outer), "streaming": ("train_streaming", Streaming)}[sys.argv[1]])
