"""Usage: python load_in_pytorch.py      Loads the model of this folder into PyTorch.
It needs torch and safetensors, but nothing of ddp.c, which wrote it."""

import json
import pathlib

import torch
from safetensors.torch import load_file
from torch import nn

folder = pathlib.Path(__file__).parent
config = json.loads((folder / "config.json").read_text())
if config["model"] == "linear":
    model = nn.Linear(20, 1)
else:
    model = nn.Sequential()
    for name, module in {
        "conv1": nn.Conv2d(1, 32, 3), "relu1": nn.ReLU(),
        "conv2": nn.Conv2d(32, 64, 3), "relu2": nn.ReLU(),
        "pool": nn.MaxPool2d(2), "dropout1": nn.Dropout(0.25), "flatten": nn.Flatten(),
        "fc1": nn.Linear(9216, 128), "relu3": nn.ReLU(), "dropout2": nn.Dropout(0.5),
        "fc2": nn.Linear(128, 10), "log_softmax": nn.LogSoftmax(dim=1),
    }.items():
        model.add_module(name, module)
model.load_state_dict(load_file(folder / "model.safetensors"))
model.eval()


def predict(inputs):
    """The model's output for a batch: pixels from 0 to 1, [n, 1, 28, 28]; linear: [n, 20]."""
    with torch.no_grad():
        return model((inputs - config["mean"]) / config["std"])


if __name__ == "__main__":
    print(model)
    print("a batch of one zero:", predict(torch.zeros(1, *config["input_shape"])))
