#!/usr/bin/env python3
"""Usage: docs/load_in_pytorch.py [FILE]      (checkpoints/cnn_digits.safetensors)

Loads a checkpoint of ours into PyTorch and tests it there. It needs torch and safetensors, and
nothing of this project but the file and the digits (data/digits.csv.gz)."""

import gzip
import sys

import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn


class Net(nn.Module):
    """The network of PyTorch's MNIST example. Its modules have the names of our tensors."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def load_model(path):
    """The model, and the normalisation that its images need: it travels in the file."""
    model = Net()
    # Beside the weights lies the optimizer's state, which a model has no place for.
    tensors = {k: v for k, v in load_file(path).items() if not k.startswith("optimizer.")}
    model.load_state_dict(tensors)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    return model.eval(), float(metadata["mean"]), float(metadata["std"])


def digits(path="data/digits.csv.gz"):
    """All 1,797 digits as MNIST would show them: ink from 0 to 1, 28 x 28; and their labels."""
    with gzip.open(path, "rt") as file:
        rows = torch.tensor([[int(n) for n in line.split(",")] for line in file])
    small = rows[:, :64].float().reshape(-1, 1, 8, 8) / 16
    large = F.interpolate(small, size=(20, 20), mode="bilinear", align_corners=False)
    return F.pad(large, (4, 4, 4, 4)), rows[:, 64]


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "checkpoints/cnn_digits.safetensors"
    model, mean, std = load_model(path)
    images, labels = digits()
    images, labels = (images[::5] - mean) / std, labels[::5]  # every fifth is a test image
    with torch.no_grad():
        log_probs = model(images)
    loss = F.nll_loss(log_probs, labels).item()
    correct = (log_probs.argmax(dim=1) == labels).sum().item()
    print("Loss: %.4f Accuracy: %.2f%% (%d/%d)" % (
        loss, 100 * correct / len(labels), correct, len(labels)))


if __name__ == "__main__":
    main()
