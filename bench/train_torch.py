#!/usr/bin/env python3
"""Usage: bench/train_torch.py digits|mnist [--data-dir DIR] [--epochs 10] [--max-steps N] [--threads 2]

01_single_gpu in PyTorch, with its defaults and its lines: the CNN, batch 32, SGD. All of the data lies in
memory, as ours does; there is no DataLoader."""
import argparse, gzip, os, sys
import torch
import torch.nn.functional as F
from net import Net

BATCH, MEAN, STD = 32, 0.1307, 0.3081
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def parse():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("dataset", choices=["digits", "mnist"])
    parser.add_argument("--data-dir", default="data/mnist")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--max-steps", type=int, default=sys.maxsize)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def idx(path, header):
    """The bytes behind the header of a file of MNIST's."""
    with gzip.open(path) as file:
        return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)


def mnist(folder):
    """(images, labels) to train on and to test with."""
    return [((idx(f"{folder}/{half}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).float() / 255 - MEAN) / STD,
             idx(f"{folder}/{half}-labels-idx1-ubyte.gz", 8).long()) for half in ("train", "t10k")]


def digits():
    sys.path.insert(0, os.path.join(ROOT, "docs"))
    from load_in_pytorch import digits as load
    images, labels = load(os.path.join(ROOT, "data/digits.csv.gz"))
    images, test = (images - MEAN) / STD, torch.arange(len(labels)) % 5 == 0
    return (images[~test], labels[~test]), (images[test], labels[test])


def evaluate(model, images, labels, epoch):
    model.eval()
    with torch.no_grad():
        correct = sum((model(part).argmax(1) == label).sum().item()
                      for part, label in zip(images.split(BATCH), labels.split(BATCH)))
    model.train()
    print("Test Epoch: %d Accuracy: %.2f%% (%d/%d)" % (epoch, 100 * correct / len(labels), correct, len(labels)),
          flush=True)


args = parse()
torch.set_num_threads(args.threads)
torch.manual_seed(0)
(images, labels), test = mnist(args.data_dir) if args.dataset == "mnist" else digits()
model, steps = Net(), 0
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(args.epochs):
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
    for number, rows in enumerate(order.split(BATCH)):
        if steps == args.max_steps:
            break
        optimizer.zero_grad()
        loss = F.nll_loss(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        steps += 1
        if number % 10 == 0:
            print("Train Epoch: %d [%d/%d] Loss: %.6f" % (epoch, number * BATCH, len(labels), loss.item()), flush=True)
    evaluate(model, *test, epoch)
    if steps == args.max_steps:
        break
