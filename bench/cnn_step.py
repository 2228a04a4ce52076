#!/usr/bin/env python3
"""Usage: bench/cnn_step.py [batch size [threads [steps]]]     What cnn_step.c measures, in PyTorch."""
import statistics, sys, time
import torch
from torch import nn
import torch.nn.functional as F

batch, threads, steps = [int(a) for a in sys.argv[1:4]] + [64, 1, 100][len(sys.argv) - 1:]
torch.set_num_threads(threads)
torch.manual_seed(0)


class Net(nn.Module):
    """The network of PyTorch's MNIST example."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout1(F.max_pool2d(x, 2)).flatten(1)
        return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(1437, 1, 28, 28), torch.randint(0, 10, (1437,))
times = []
for step in range(-5, steps):
    begin = time.monotonic()
    rows = torch.randint(0, 1437, (batch,))
    optimizer.zero_grad()
    F.nll_loss(model(images[rows]), labels[rows]).backward()
    optimizer.step()
    times.append(time.monotonic() - begin)
median = statistics.median(times[5:])
print("%.0f samples/s, %.2f ms a step (batch %d, %d threads, median of %d steps; PyTorch %s)" % (
    batch / median, 1e3 * median, batch, threads, steps, torch.__version__))
