"""Usage: training.py optimizers|worlds|recipes|rates|ddp      Losses at each step, beside PyTorch's."""
import array, sys
import torch
from torch.nn.parallel import DistributedDataParallel
import ours, reference

STEPS = 10
KINDS = ["sgd", "momentum", "adam", "adamw", "adadelta"]
# High enough for a wrong weight decay to show within STEPS.
RATES = {"linear": {"sgd": (5e-3, 0.2), "momentum": (5e-3, 0.05), "adam": (1e-3, 0.1),
                    "adamw": (1e-3, 0.1), "adadelta": (0.1, 2)},
         "cnn": {"sgd": (3e-3, 0.03), "momentum": (1e-3, 0.01), "adam": (1e-4, 1e-3),
                 "adamw": (1e-4, 1e-3), "adadelta": (0.03, 0.2)}}


def settings(dice, model, kind):
    """Random options of an optimizer; batches of odd sizes."""
    options = {"model": model, "optimizer": "sgd" if kind == "momentum" else kind, "epochs": 2,
               "max-steps": STEPS, "batch-size": 2 * dice.randint(3, 16) + 1,
               "lr": ours.log_uniform(dice, *RATES[model][kind]),
               "weight-decay": dice.choice([0, ours.log_uniform(dice, 1e-2, 0.3)])}
    if options["optimizer"] == "sgd":
        options["momentum"] = round(dice.uniform(0.1, 0.95), 3) if kind == "momentum" else 0
    return options


def in_one_process(options, world):
    return reference.Job(options, world).train()


def compare(dice, options, world, step, theirs=in_one_process):
    def attempt(options):
        losses, _ = ours.train(options, None, world, step)
        return zip(losses, theirs(options, world))

    ours.agree(dice, options, attempt, "step %02d on %d ranks" % (step, world))


def optimizers():
    dice = ours.dice()
    for kind in KINDS:
        for model, times in ("linear", 3), ("cnn", 2):
            for _ in range(times):
                world = dice.choice([1, 1, 2])
                step = dice.choice([1, 2, 3]) if world == 1 else dice.choice([2, 3])
                compare(dice, settings(dice, model, kind), world, step)


def worlds():
    """Batches of odd sizes; and few rows, so that ranks repeat some of them, the last batch of an
    epoch is a short one, and the second epoch begins within STEPS."""
    dice = ours.dice()
    for model in "linear", "cnn":
        for world in 1, 2, 3, 5:
            options = settings(dice, model, dice.choice(KINDS))
            batch = options["batch-size"]
            share = dice.randint(3, 6) * batch + dice.randint(1, batch - 1)
            options["num-samples"] = share * world - dice.randint(0, world - 1)
            compare(dice, options, world, dice.choice([2, 3]))


def recipes():
    """Clipped gradients, schedules and warm-up, with every optimizer; the second epoch of 4 steps
    begins within STEPS. The norm is one that clips some steps and leaves others."""
    dice = ours.dice()
    schedules = ["constant", "step", "cosine"]
    for i, kind in enumerate(KINDS):
        for model in "linear", "cnn":
            world = dice.choice([1, 2])
            options = settings(dice, model, kind)
            options.update({"num-samples": 4 * world * options["batch-size"], "epochs": 3,
                            "lr-schedule": schedules[i % 3], "warmup-steps": dice.randint(1, 6),
                            "clip-norm": ours.log_uniform(dice, 0.1, 2)})
            compare(dice, options, world, dice.choice([1, 2, 3]) if world == 1 else 3)


def rates():
    """The rate itself at each step of whole runs, in double."""
    dice = ours.dice()
    for name in "constant", "step", "cosine":
        for _ in range(5):
            epochs, steps = dice.randint(1, 12), dice.randint(1, 50)
            warmup = dice.choice([0, dice.randint(0, epochs * steps - 1)])
            mine = array.array("d", ours.peer("dump", "rates", name, warmup, epochs, steps))
            parameter = torch.nn.Parameter(torch.zeros(1))
            optimizer = torch.optim.SGD([parameter], lr=1)
            scheduler = reference.make_scheduler(
                optimizer, {"lr-schedule": name, "warmup-steps": warmup, "epochs": epochs}, steps)
            theirs = []
            for _ in range(epochs * steps):
                theirs.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
                scheduler.step()
            assert len(mine) == len(theirs)
            error = max(abs(a - b) for a, b in zip(mine, theirs))
            print("%s, %d epochs of %d steps, warm-up %d: off by %.0e"
                  % (name, epochs, steps, warmup, error), flush=True)
            assert error <= 1e-12


def ddp_rank(rank, world, options):
    job = reference.Job(options, world)
    if rank > 0:  # as in our programs, other weights: DDP has to bring rank 0's
        for parameter in job.model.parameters():
            parameter.data.uniform_()
    model = DistributedDataParallel(job.model)
    losses = []
    for batches in list(job.batches())[:options["max-steps"]]:
        job.optimizer.zero_grad()
        loss = job.loss(model(job.inputs[batches[rank]]), job.targets[batches[rank]])
        loss.backward()
        job.optimizer.step()
        losses.append(loss.item())
    return losses


def real_ddp(options, world):
    """The losses of PyTorch's own DDP."""
    return ours.ranks(ddp_rank, world, options)


def ddp():
    dice = ours.dice()
    for model, world in ("linear", 4), ("cnn", 2):
        compare(dice, settings(dice, model, "momentum"), world, 3, real_ddp)


if __name__ == "__main__":
    {"optimizers": optimizers, "worlds": worlds, "recipes": recipes, "rates": rates,
     "ddp": ddp}[sys.argv[1]]()
