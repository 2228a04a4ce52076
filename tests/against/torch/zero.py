"""Usage: zero.py redundancy|add_group|fully_shard    The weights after some steps, beside PyTorch's own ZeRO over gloo."""
import subprocess, sys, tempfile
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
import ours, reference

# 8 steps, within which DESIGN's tolerance for every optimizer is 1e-5.
STEPS, TOLERANCE = 8, 1e-5
UNFREEZE_STEP = 4  # of train_add_group.c


class Mlp(nn.Module):
    """The eight equal layers of --model mlp."""

    def __init__(self):
        super().__init__()
        for i in range(1, 9):
            setattr(self, "fc%d" % i, nn.Linear(784, 784))

    def forward(self, x):
        x = torch.flatten(x, 1)
        for i in range(1, 8):
            x = F.relu(getattr(self, "fc%d" % i)(x))
        return F.log_softmax(self.fc8(x), dim=1)


def job_of(options, world):
    """The reference's job; the mlp, which it does not know, starts from the same generator."""
    if options["model"] != "mlp":
        return reference.Job(options, world)
    job = reference.Job({**options, "model": "cnn"}, world)
    torch.manual_seed(options["seed"])
    job.model = Mlp()
    job.optimizer = reference.make_optimizer(job.model, options)
    return job


def redundancy(job, options):
    """DDP, each rank with the optimizer state of its parameters alone. Returns model and optimizer."""
    kind = reference.OPTIMIZERS[options["optimizer"]]
    given = {key: options[key] for key in ("lr", "momentum") if key in options}
    return DistributedDataParallel(job.model), ZeroRedundancyOptimizer(job.model.parameters(), kind, **given)


def add_group(job, options):
    """The optimizer has the last layer alone at first; after some steps it gets the others."""
    *others, last = [layer for layer in job.model.children() if any(True for _ in layer.parameters())]
    kind = reference.OPTIMIZERS[options["optimizer"]]
    given = {key: options[key] for key in ("lr", "momentum") if key in options}
    optimizer = ZeroRedundancyOptimizer(last.parameters(), kind, **given)
    job.joins = {"params": [value for layer in others for value in layer.parameters()]}
    return DistributedDataParallel(job.model), optimizer


def fully_shard(job, options):
    """FSDP2, every layer a unit. The root's group is what is left: nothing here."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in job.model.children():
        if any(True for _ in layer.parameters()):
            shard(layer, mesh=mesh)
    shard(job.model, mesh=mesh)
    return job.model, reference.make_optimizer(job.model, options)


def rank_main(rank, world, wrap, options):
    job = job_of(options, world)
    model, optimizer = wrap(job, options)
    for step, batches in enumerate(list(job.batches())[:STEPS]):
        if step == UNFREEZE_STEP and hasattr(job, "joins"):
            optimizer.add_param_group(job.joins)
        model.zero_grad()
        job.loss(model(job.inputs[batches[rank]]), job.targets[batches[rank]]).backward()
        optimizer.step()
    weights = {}
    for name, value in model.state_dict().items():
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value  # collective
        weights[name.removeprefix("module.")] = whole.detach().numpy().copy()
    return weights


def train(stage, options, world):
    """Our weights."""
    with tempfile.TemporaryDirectory() as scratch:
        given = {"nproc": world, "dropout": "off", "threads": 1, "save-every": 0, "checkpoint-dir": scratch,
                 "max-steps": STEPS, **options}
        words = [word for name, value in given.items() for word in ("--" + name, str(value))]
        done = subprocess.run(["beyond/zero/train_" + stage] + words, capture_output=True, text=True,
                              timeout=ours.ENDLESS)
        assert done.returncode == 0, done.stderr
        name = "linear_random" if options["model"] == "linear" else options["model"] + "_digits"
        return load_file("%s/%s.safetensors" % (scratch, name))


JOBS = (("linear", "sgd", 2, {"lr": 0.01, "momentum": 0.9}), ("linear", "adam", 3, {"lr": 0.01}),
        ("cnn", "sgd", 2, {"lr": 0.01, "momentum": 0.9}), ("mlp", "sgd", 4, {"lr": 0.05, "momentum": 0.9}))
# Adam tells whether the layers that join count their own steps: if not, weights are off by 5e-2. It moves a weight whose
# gradient is a remainder of rounding as far as others, so it has a tolerance of its own.
ADAM_TOLERANCE = 2e-3
JOIN_JOBS = (*JOBS[2:], ("cnn", "adam", 2, {"lr": 0.0001}))


def compare(stages, wrap, jobs=JOBS):
    for model, optimizer, world, more in jobs:
        options = {"model": model, "optimizer": optimizer, "epochs": 1, "batch-size": 8, "seed": 7, **more}
        due = ours.ranks(rank_main, world, wrap, options)[0]
        for stage in stages:
            weights = train(stage, options, world)
            error = max(float(abs(weights[name] - torch.from_numpy(value)).max() / abs(value).max())
                        for name, value in due.items())
            print("%s, %s, %s on %d ranks: off by %.1e" % (stage, model, optimizer, world, error), flush=True)
            most = ADAM_TOLERANCE if (model, optimizer) == ("cnn", "adam") else TOLERANCE
            assert due.keys() <= weights.keys() and error <= most


if __name__ == "__main__":
    {"redundancy": lambda: compare(("zero1", "zero2"), redundancy),
     "add_group": lambda: compare(("add_group",), add_group, JOIN_JOBS),
     "fully_shard": lambda: compare(("zero3",), fully_shard)}[sys.argv[1]]()
