"""Usage: join.py      Ranks with different numbers of rows beside DDP's join(), over gloo: the weights after some steps."""
import subprocess, tempfile
import torch
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel
import ours, reference

TOLERANCE = 1e-5  # within 8 steps


def rank_main(rank, world, options, by_world):
    """The weights after each step."""
    job = reference.Job(options, world)
    sampler = torch.utils.data.distributed.DistributedSampler(range(job.size), world, rank, seed=options["seed"])
    sampler.set_epoch(0)
    order = list(sampler)
    order = order[:len(order) * (world - rank) // world]  # uneven, as train_uneven.c does it
    model = DistributedDataParallel(job.model)
    weights = []
    with model.join(divide_by_initial_world_size=by_world):
        for begin in range(0, len(order), options["batch-size"]):
            rows = order[begin:begin + options["batch-size"]]
            job.optimizer.zero_grad()
            job.loss(model(job.inputs[rows]), job.targets[rows]).backward()
            job.optimizer.step()
            weights.append({name.removeprefix("module."): value.detach().numpy().copy()
                            for name, value in model.state_dict().items()})
    return weights


def train(command, options, world, steps):
    """Our weights after this many steps."""
    with tempfile.TemporaryDirectory() as scratch:
        given = {"nproc": world, "dropout": "off", "threads": 1, "save-every": 0, "checkpoint-dir": scratch,
                 "max-steps": steps, **options}
        words = [word for name, value in given.items() for word in ("--" + name, str(value))]
        done = subprocess.run(command + words, capture_output=True, text=True, timeout=ours.ENDLESS)
        assert done.returncode == 0, done.stderr
        return load_file("%s/%s.safetensors" % (scratch, "linear_random" if options["model"] == "linear" else "cnn_digits"))


JOBS = (("linear", "sgd", 2, {"lr": 0.01, "momentum": 0.9}), ("linear", "adam", 3, {"lr": 0.01}),
        ("cnn", "sgd", 3, {"lr": 0.01, "momentum": 0.9}))


def compare(command, jobs, by_world, steps):
    for model, optimizer, world, more in jobs:
        options = {"model": model, "optimizer": optimizer, "epochs": 1, "batch-size": 8, "seed": 7,
                   "num-samples": 64 * world, **more}
        due = ours.ranks(rank_main, world, options, by_world)[0]  # rank 0 has the most rows
        assert len(due) == 8  # of which the last rank joins in 4 or more
        worst = 0
        for step in steps:
            weights = train(command, options, world, step)
            worst = max([worst] + [float(abs(weights[name] - torch.from_numpy(value)).max() / abs(value).max())
                                   for name, value in due[step - 1].items()])
        print("%s, %s on %d ranks, divided by %s: off by %.1e" % (model, optimizer, world,
                                                                  "all" if by_world else "the active", worst), flush=True)
        assert worst <= TOLERANCE


if __name__ == "__main__":
    compare(["beyond/uneven/train_join"], JOBS, True, (3, 5, 8))
    # PyTorch's other divisor is an edit here (docs/beyond_gradients.md).
    edit = r"s/^            if (join.batch != NULL)$/            pg.mean_ranks = join.num_active;\n&/"
    compare(["env", "PLAIN=1", "tools/break.sh", "beyond/uneven/train_join.c", edit], JOBS[2:], False, (8,))
