"""Usage: batch_norm.py broadcast|whole|sync      The asides with buffers of beyond/ beside PyTorch.

broadcast: DDP, which hands out rank 0's buffers before each forward pass. whole: BatchNorm2d in one process with the batch
of all ranks. sync: torch.nn.SyncBatchNorm's own forward and backward. The module refuses CPUs, for which five kernels
are missing; they are supplied here by their formulas, and all that the ranks exchange is PyTorch's.
"""
import collections, os, re, subprocess, sys, tempfile
import torch
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules._functions import SyncBatchNorm as SyncFunction
from torch.nn.parallel import DistributedDataParallel
import ours, reference

STEPS, TOLERANCE = 8, 1e-5


def stats(x, eps):
    var, mean = torch.var_mean(x.double(), dim=(0, 2, 3), unbiased=False)
    return mean.float(), (var + eps).rsqrt().float()


def gather_stats(x, means, invstds, running_mean, running_var, momentum, eps, counts):
    n, means, second = counts.double(), means.double(), invstds.double() ** -2 - eps + means.double() ** 2
    mean = (means * n[:, None]).sum(0) / n.sum()
    var = (second * n[:, None]).sum(0) / n.sum() - mean ** 2
    running_mean.lerp_(mean.float(), momentum)
    running_var.lerp_((var * n.sum() / (n.sum() - 1)).float(), momentum)
    return mean.float(), (var + eps).rsqrt().float()


def of_channels(values):
    return values[None, :, None, None]


def elemt(x, weight, bias, mean, invstd, eps):
    return (x - of_channels(mean)) * of_channels(invstd * weight) + of_channels(bias)


def backward_reduce(dy, x, mean, invstd, weight, *_):
    sum_dy, sum_dy_xmu = dy.sum((0, 2, 3)), (dy * (x - of_channels(mean))).sum((0, 2, 3))
    return sum_dy, sum_dy_xmu, sum_dy_xmu * invstd, sum_dy


def backward_elemt(dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu, counts):
    n = counts.sum()
    return (dy - of_channels(sum_dy / n) - (x - of_channels(mean)) * of_channels(invstd ** 2 * sum_dy_xmu / n)) * \
        of_channels(invstd * weight)


def supply_kernels():
    torch.batch_norm_stats, torch.batch_norm_gather_stats_with_counts, torch.batch_norm_elemt = stats, gather_stats, elemt
    torch.batch_norm_backward_reduce, torch.batch_norm_backward_elemt = backward_reduce, backward_elemt


class SyncNorm(nn.BatchNorm2d):
    """SyncBatchNorm without its look at the device."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        self.num_batches_tracked.add_(1)
        return SyncFunction.apply(x, self.weight, self.bias, self.running_mean, self.running_var, self.eps, self.momentum,
                                  dist.group.WORLD, dist.get_world_size())


def network(norm):
    layers = collections.OrderedDict(
        conv1=nn.Conv2d(1, 8, 3, stride=2, bias=False), bn1=norm(8), relu1=nn.ReLU(),
        conv2=nn.Conv2d(8, 16, 3, stride=2, bias=False), bn2=norm(16), relu2=nn.ReLU(),
        flatten=nn.Flatten(), fc=nn.Linear(576, 10), log_softmax=nn.LogSoftmax(1))
    return nn.Sequential(layers)


def job_of(options, world, norm):
    """The reference's job with another model, from the same generator."""
    job = reference.Job({**options, "model": "cnn"}, world)
    torch.manual_seed(options["seed"])
    job.model, job.loss = network(norm), F.nll_loss
    job.optimizer = reference.make_optimizer(job.model, options)
    return job


def numbers(model):
    return {name.removeprefix("module."): value.detach().numpy().copy() for name, value in model.state_dict().items()}


def rank_main(rank, world, norm, options):
    if norm is SyncNorm:
        supply_kernels()
    job = job_of(options, world, norm)
    model = DistributedDataParallel(job.model) # it broadcasts buffers
    for batches in list(job.batches())[:STEPS]:
        job.optimizer.zero_grad()
        job.loss(model(job.inputs[batches[rank]]), job.targets[batches[rank]]).backward()
        job.optimizer.step()
    return numbers(model)


def many_processes(options, world, norm):
    return ours.ranks(rank_main, world, norm, options)[0]


def one_process(options, world, _):
    job = job_of(options, world, nn.BatchNorm2d)
    for batches in list(job.batches())[:STEPS]:
        rows = [row for share in batches for row in share]
        job.optimizer.zero_grad()
        job.loss(job.model(job.inputs[rows]), job.targets[rows]).backward()
        job.optimizer.step()
    return numbers(job.model)


def train(program, options, world):
    """Our file, and what was printed."""
    with tempfile.TemporaryDirectory() as scratch:
        given = {"nproc": world, "save-every": 0, "checkpoint-dir": scratch, "max-steps": STEPS, **options}
        words = [word for name, value in given.items() if name != "optimizer" for word in ("--" + name, str(value))]
        words += os.environ.get("TEST_OPTIONS", "").split()
        done = subprocess.run(["beyond/batch_norm/" + program] + words, capture_output=True, text=True, timeout=ours.ENDLESS)
        assert done.returncode == 0, done.stderr
        return load_file(scratch + "/batch_norm_digits.safetensors"), done.stdout


def compare_evaluation(tensors, said):
    """PyTorch loads our file, and tests it in eval mode."""
    model = network(nn.BatchNorm2d)
    model.load_state_dict({name: value for name, value in tensors.items() if not name.startswith("optimizer.")})
    model.eval()
    inputs, targets = reference.digits_split("test")
    log_probs = model(inputs)
    loss, correct = F.nll_loss(log_probs, targets).item(), int((log_probs.argmax(1) == targets).sum())
    found = re.search(r"^Test Epoch: 0 Loss: ([\d.]+) Accuracy: [\d.]+% \((\d+)/360\)", said, re.M)
    print("evaluation: loss %.5f, %d of 360; ours %s" % (loss, correct, found.group(0)))
    assert abs(loss - float(found.group(1))) <= 1.01e-4 and correct == int(found.group(2))


def compare(program, theirs, norm=None):
    for world, batch, momentum in ((2, 8, 0.9), (3, 5, 0), (4, 1, 0.9)):
        options = {"optimizer": "sgd", "lr": 0.02, "momentum": momentum, "epochs": 1, "batch-size": batch, "seed": 7}
        due = theirs(options, world, norm)
        tensors, said = train(program, options, world)
        assert due.keys() <= tensors.keys() and sum("running" in name for name in due) == 4
        worst = 0
        for name, value in due.items():
            if name.endswith("num_batches_tracked"):
                assert tensors[name].item() == value == STEPS
                continue
            worst = max(worst, float(abs(tensors[name] - torch.from_numpy(value)).max() / abs(value).max()))
        print("%s, %d ranks: off by %.1e" % (program, world, worst), flush=True)
        assert worst <= TOLERANCE
    compare_evaluation(tensors, said)


if __name__ == "__main__":
    if sys.argv[1] == "broadcast":
        compare("train_batch_norm", many_processes, nn.BatchNorm2d)
    elif sys.argv[1] == "whole":
        compare("train_sync_batch_norm", one_process)
    else:
        compare("train_sync_batch_norm", many_processes, SyncNorm)
