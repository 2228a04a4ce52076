#!/usr/bin/env python3
"""Usage: bench/cnn_step.py [batch sizes [threads [samples [off|bf16]]]]     What cnn_step.c measures, in PyTorch.

All combinations, as 32,64 1,2: a line of JSON each. `samples` is the number for each, four steps at least."""
import json, statistics, sys, time
import torch
import torch.nn.functional as F
from net import Net

WARM_UP, ROWS = 2, 1437
given = sys.argv[1:] + ["64", "1", "6400", "off"][len(sys.argv) - 1:]
batches, threads = ([int(number) for number in text.split(",")] for text in given[:2])
samples, amp = int(given[2]), given[3]
images, labels = torch.randn(ROWS, 1, 28, 28), torch.randint(0, 10, (ROWS,))


def measure(batch, threads):
    """Seconds of a step, the median."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    times = []
    for _ in range(WARM_UP + max(4, samples // batch)):
        begin = time.monotonic()
        rows = torch.randint(0, ROWS, (batch,))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=amp == "bf16"):
            loss = F.nll_loss(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        times.append(time.monotonic() - begin)
    return statistics.median(times[WARM_UP:])


for batch in batches:
    for count in threads:
        case = "batch %d, %d thread%s, %s" % (batch, count, "s" if count > 1 else "", "fp32" if amp == "off" else amp)
        print(json.dumps({"case": case, "value": batch / measure(batch, count), "unit": "samples/s"}), flush=True)
