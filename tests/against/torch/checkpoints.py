"""Usage: checkpoints.py loads|init_from|resume_in_torch|resume_in_ours      Files go both ways."""
import os, subprocess, sys, tempfile
import numpy, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
import data, load_in_pytorch, ours, reference

HALF, WHOLE = 4, 8  # steps
JOBS = [{"model": model, "epochs": 1, "batch-size": 24, "weight-decay": 0.01, **kind}
        for model in ("linear", "cnn")
        for kind in ({"optimizer": "sgd", "lr": 0.01, "momentum": 0},
                     {"optimizer": "sgd", "lr": 0.01, "momentum": 0.9},
                     {"optimizer": "adam", "lr": 0.0005}, {"optimizer": "adamw", "lr": 0.0005},
                     {"optimizer": "adadelta", "lr": 0.1})]


def file_of(options, scratch):
    return "%s/%s.safetensors" % (scratch, {"linear": "linear_random", "cnn": "cnn_digits"}[
        options["model"]])


def loads():
    """docs/load_in_pytorch.py, with nothing but the file, says what our program said of its test;
    and each image gets the same probabilities."""
    options = {"model": "cnn", "epochs": 2, "dropout": "on"}
    with tempfile.TemporaryDirectory() as scratch:
        _, output = ours.train(options, scratch, 2)
        path = file_of(options, scratch)
        command = [sys.executable, "-B", "docs/load_in_pytorch.py", path]
        told = subprocess.check_output(command, text=True)
        outputs = numpy.frombuffer(ours.peer("dump", "log_probs", path), "f4")
        model, mean, std = load_in_pytorch.load_model(path)
        named = torch.load(path)  # 2.15 goes by the name's end
        assert {name: value.tolist() for name, value in named.items()} == {name: value.tolist() for name, value in load_file(path).items()}
    loss, correct = data.test_line(output)
    theirs = data.test_line("Test Epoch: 1 " + told)
    print("ours: %.4f, %d of 360; PyTorch: %.4f, %d" % ((loss, correct) + theirs))
    assert correct == theirs[1] and abs(loss - theirs[0]) <= 1.1e-4 and correct > 240
    assert (mean, std) == (reference.MEAN, reference.STD)
    images, _ = reference.digits_split("test")
    with torch.no_grad():
        off = (torch.tensor(outputs.reshape(10, 360)).T - model(images)).abs().max().item()
    print("log probabilities off by %.1e at most" % off)
    assert off <= 1e-5


def init_from():
    """What PyTorch saved, a model's state_dict or a DDP wrapper's, goes on as it does there."""
    dice = ours.dice()

    def attempt(options):
        job = reference.Job({**options, "seed": options["seed"] + 1})
        job.train()  # weights that no seed gives
        start = reference.Job(options, world)
        start.model.load_state_dict(job.model.state_dict())
        with tempfile.TemporaryDirectory() as scratch:
            path = scratch + "/theirs.safetensors"
            save_file({prefix + k: v for k, v in job.model.state_dict().items()}, path)
            losses, _ = ours.train({**options, "init-from": path}, scratch, world)
        return zip(losses, start.train())

    for model, prefix, world in (("linear", "", 1), ("linear", "", 2), ("cnn", "", 1),
                                 ("cnn", "module._orig_mod.", 2)):
        options = {"model": model, "epochs": 1, "batch-size": 20, "optimizer": "sgd", "lr": 0.01,
                   "momentum": 0.9, "max-steps": WHOLE}
        ours.agree(dice, options, attempt, "%d ranks go on from %snames" % (world, prefix))


def put_state(optimizer, names, tensors):
    """Our tensors into PyTorch's optimizer, by the names it has for them itself."""
    state = {}
    for i, name in enumerate(names):
        start = "optimizer.%s." % name
        state[i] = {key[len(start):]: value for key, value in tensors.items()
                    if key.startswith(start)}
        if optimizer.__class__ is not torch.optim.SGD:
            state[i]["step"] = tensors["optimizer.step"].float()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def get_state(job, step):
    """The reverse: model and optimizer as our files name them."""
    names = [name for name, _ in job.model.named_parameters()]
    tensors = {"optimizer.step": torch.tensor(step), **job.model.state_dict()}
    for i, state in job.optimizer.state_dict()["state"].items():
        for key, value in state.items():
            if key != "step" and value is not None:
                tensors["optimizer.%s.%s" % (names[i], key)] = value
            elif key == "step":
                assert value == step
    return tensors


def compare_states(final, expected):
    """All tensors by name, shape and values; a near-tie in the last step (ours.agree) is 1e-3."""
    assert set(expected) == set(final), set(expected) ^ set(final)
    for name, value in expected.items():
        off = ((final[name] - value).float().norm() / value.float().norm()).item()
        assert final[name].shape == value.shape and off <= 3e-2, (name, off)


def resume_in_torch():
    """Ours makes HALF of the steps and saves; both go on from the file, to the same states."""
    dice = ours.dice()

    def attempt(options):
        with tempfile.TemporaryDirectory() as scratch:
            ours.train({**options, "max-steps": HALF}, scratch, 1, 1)
            tensors = load_file(file_of(options, scratch))
            losses, _ = ours.train({**options, "max-steps": WHOLE}, scratch, 1, 1)
            final = load_file(file_of(options, scratch))
        job = reference.Job({**options, "max-steps": WHOLE})
        names = [name for name, _ in job.model.named_parameters()]
        job.model.load_state_dict({name: tensors[name] for name in names})
        put_state(job.optimizer, names, tensors)
        expected = job.train(HALF)[0]
        if ours.worst(losses[0][HALF:], expected) <= ours.TOLERANCE:
            compare_states(final, get_state(job, WHOLE))
        return [(losses[0][HALF:], expected)]

    for options in JOBS:
        ours.agree(dice, options, attempt, "goes on in PyTorch")


def resume_in_ours():
    """PyTorch makes HALF of the steps and saves; both go on from the file. What a file says of its
    run besides the tensors is taken from one of ours."""
    dice = ours.dice()

    def attempt(options):
        job = reference.Job({**options, "max-steps": HALF})
        job.train()
        with tempfile.TemporaryDirectory() as scratch:
            path = file_of(options, scratch)
            ours.train({**options, "max-steps": HALF}, scratch, 1, 1)
            with safe_open(path, "pt") as file:
                metadata = {k: v for k, v in file.metadata().items() if not k.endswith("checksum")}
            os.remove(path)
            save_file(get_state(job, HALF), path, metadata)
            losses, _ = ours.train({**options, "max-steps": WHOLE, "resume": path}, scratch, 1, 1)
        job.options["max-steps"] = WHOLE
        return [(losses[0][HALF:], job.train(HALF)[0])]

    for options in JOBS:
        ours.agree(dice, options, attempt, "goes on with us")


if __name__ == "__main__":
    {"loads": loads, "init_from": init_from, "resume_in_torch": resume_in_torch,
     "resume_in_ours": resume_in_ours}[sys.argv[1]]()
