"""Usage: local_sgd.py average|diloco      The weights after some steps of the asides in beyond/local_sgd, beside PyTorch.

average: PeriodicModelAverager over gloo. diloco: torch.optim.SGD with nesterov=True as the outer optimizer."""
import subprocess, sys, tempfile
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
import ours, reference

PERIOD, LR, MOMENTUM = 8, 0.7, 0.9  # as train_local_sgd.c and train_diloco.c have them
STEPS, TOLERANCE = 20, 1e-5  # two rounds, and one that the end cuts short


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


def train(program, options, world):
    """Our weights."""
    with tempfile.TemporaryDirectory() as scratch:
        given = {"nproc": world, "dropout": "off", "threads": 1, "save-every": 0, "checkpoint-dir": scratch,
                 "max-steps": STEPS, "device": "cpu", **options}
        words = [word for name, value in given.items() for word in ("--" + name, str(value))]
        done = subprocess.run(["beyond/local_sgd/" + program] + words, capture_output=True, text=True, timeout=ours.ENDLESS)
        assert done.returncode == 0, done.stderr
        return load_file("%s/%s.safetensors" % (scratch, "linear_random" if options["model"] == "linear" else "cnn_digits"))


def compare(program, kind):
    for model, optimizer, world, more in (("linear", "sgd", 2, {"lr": 0.01, "momentum": 0.9}),
                                          ("linear", "adam", 3, {"lr": 0.01}),
                                          ("cnn", "sgd", 2, {"lr": 0.01, "momentum": 0.9})):
        options = {"model": model, "optimizer": optimizer, "epochs": 1, "batch-size": 8, "seed": 7, **more}
        due = ours.ranks(rank_main, world, kind, options)
        weights = train(program, options, world)
        error = max(float(abs(weights[name] - torch.from_numpy(value)).max() / abs(value).max()) for name, value in due[0].items())
        print("%s, %s, %s on %d ranks: off by %.1e" % (program, model, optimizer, world, error), flush=True)
        assert due[0].keys() <= weights.keys() and error <= TOLERANCE


if __name__ == "__main__":
    {"average": lambda: compare("train_local_sgd", Average), "diloco": lambda: compare("train_diloco", Outer)}[sys.argv[1]]()
