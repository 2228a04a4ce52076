"""Usage: data.py samplers|initial|rows|evaluation      Where training starts from, and its test."""
import re, subprocess, sys, tempfile
import numpy, torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.utils.data.distributed import DistributedSampler
import ours, reference

SETTINGS = 200


def samplers():
    """The rows of DistributedSampler, one by one, for settings at large."""
    dice = ours.dice()
    for _ in range(SETTINGS):
        size = dice.choice([dice.randint(1, 30), dice.randint(1, 3000), dice.randint(1, 100000)])
        world = dice.choice([1, 2, 3, 8, dice.randint(1, 40)])
        seed = dice.choice([0, 1, dice.getrandbits(32), dice.getrandbits(63)])
        epoch = dice.randint(0, 1000)
        shuffle, drop_last = dice.random() < 0.75, dice.random() < 0.5
        for rank in {0, world - 1, dice.randrange(world)}:
            sampler = DistributedSampler(range(size), world, rank, shuffle=shuffle, seed=seed,
                                         drop_last=drop_last)
            sampler.set_epoch(epoch)
            command = ["tools/shards", "--size", size, "--world-size", world, "--rank", rank,
                       "--seed", seed, "--epoch", epoch]
            command += [] if shuffle else ["--no-shuffle"]
            command += ["--drop-last"] if drop_last else []
            rows = subprocess.check_output([str(word) for word in command])
            assert list(map(int, rows.split())) == list(sampler), command
    print("%d samplers" % SETTINGS)


def initial():
    """Weights straight after the seed, bit for bit; and nothing beside them but step 0."""
    dice = ours.dice()
    for model in "linear", "cnn":
        for seed in 0, dice.getrandbits(16), dice.getrandbits(32), dice.getrandbits(63):
            options = {"model": model, "seed": seed, "epochs": 0}
            if model == "linear":
                options["dataset-size"] = dice.randint(1, 500)
            job = reference.Job({**options, "optimizer": "sgd", "lr": 1})
            with tempfile.TemporaryDirectory() as scratch:
                ours.train({**options, "momentum": 0}, scratch, step=1)
                tensors = load_file(scratch + "/epoch_0.safetensors")
            assert tensors.pop("optimizer.step").item() == 0
            assert set(tensors) == set(job.model.state_dict())
            for name, value in job.model.state_dict().items():
                assert torch.equal(tensors[name], value), (options, name)
    print("4 seeds for each model")


def rows():
    """The random rows bit for bit, and the digits' labels; their pixels within rounding: a place in
    the small image, up to 7.3, is known to half a millionth there, and ink of 1 becomes 3.2."""
    dice = ours.dice()
    for seed in 0, dice.getrandbits(32), dice.getrandbits(63):
        size = dice.randint(1, 3000)
        table = numpy.frombuffer(ours.peer("dump", "rows", "random", size, seed, "train"), "f4")
        table = torch.tensor(table.reshape(-1, 21))
        torch.manual_seed(seed)
        inputs, targets = reference.random_rows(size)
        assert torch.equal(table[:, :20], inputs) and torch.equal(table[:, 20:], targets), seed
    for split, size in ("train", 1437), ("test", 360):
        table = numpy.frombuffer(ours.peer("dump", "rows", "digits", 1, 0, split), "f4")
        table = torch.tensor(table.reshape(size, 785))
        images, labels = reference.digits_split(split)
        off = (table[:, :784] - images.flatten(1)).abs().max().item()
        print("digits to %s: pixels off by %.1e at most" % (split, off))
        assert off <= 3e-6 and torch.equal(table[:, 784].long(), labels)


def test_line(output):
    """Loss and number of correct images that a program printed last."""
    pattern = r"^Test Epoch: \d+ Loss: (\S+) Accuracy: \S+% \((\d+)/360\)$"
    loss, correct = re.findall(pattern, output, re.MULTILINE)[-1]
    return float(loss), int(correct)


def torch_test(model):
    """Loss, correct images, and those whose two likeliest labels differ by no more than rounding."""
    images, labels = reference.digits_split("test")
    with torch.no_grad():
        log_probs = model.eval()(images)
    first, second = log_probs.topk(2, dim=1).values.unbind(1)
    return (F.nll_loss(log_probs, labels).item(), (log_probs.argmax(1) == labels).sum().item(),
            (first - second < 1e-5).sum().item())


def evaluation():
    """Loss and accuracy on the test set, of weights that a step with lr 0 leaves as they are."""
    dice = ours.dice()
    options = {"model": "cnn", "seed": dice.getrandbits(32), "epochs": 1, "optimizer": "adam",
               "lr": 0.001, "batch-size": 16, "max-steps": 0}
    job = reference.Job(options)
    for steps in 0, 4, 20:  # from ignorance to some knowledge
        options["max-steps"], first = steps, options["max-steps"]
        if steps > 0:
            job.train(first)
        loss, correct, undecided = torch_test(job.model)
        for world, step in (1, 1), (2, 2), (3, 3), (5, 3):
            with tempfile.TemporaryDirectory() as scratch:
                weights = scratch + "/torch.safetensors"
                save_file(job.model.state_dict(), weights)
                still = {"model": "cnn", "init-from": weights, "epochs": 1, "max-steps": 1,
                         "lr": 0, "batch-size": dice.randint(1, 64)}
                _, output = ours.train(still, scratch, world, step)
            print("PyTorch: %.6f, %d of 360; ours on %d ranks: %.4f, %d" % (
                (loss, correct, world) + test_line(output)))
            our_loss, our_correct = test_line(output)
            assert abs(our_correct - correct) <= undecided and abs(our_loss - loss) <= 0.6e-4


if __name__ == "__main__":
    {"samplers": samplers, "initial": initial, "rows": rows,
     "evaluation": evaluation}[sys.argv[1]]()
