"""Usage: join.py      Ranks with different numbers of rows beside DDP's join(), over gloo: the weights after some steps."""
import datetime, multiprocessing, subprocess, sys, tempfile
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel
import ours, reference

TOLERANCE = 1e-5  # within 8 steps


def rank_main(options, world, rank, port, by_world, results):
    """The weights after each step of rank 0, which has the most rows."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=ours.ENDLESS))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
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
    if rank == 0:
        results.put(weights)
    dist.barrier()
    dist.destroy_process_group()


def theirs(options, world, by_world):
    fork = multiprocessing.get_context("fork")
    with ours.Server() as server:
        results = fork.Queue()
        ranks = [fork.Process(target=rank_main, daemon=True, args=(options, world, rank, server.port, by_world, results))
                 for rank in range(world)]
        for process in ranks:
            process.start()
        weights = results.get(timeout=ours.ENDLESS)
        for process in ranks:
            process.join(ours.ENDLESS)
            assert process.exitcode == 0
    return weights


def train(command, options, world, steps):
    """Our weights after so many steps."""
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
        due = theirs(options, world, by_world)
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
