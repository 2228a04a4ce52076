#!/usr/bin/env python3
"""Usage: bench/gpu_step.py [cuda|cpu]     What cnn_step.c measures, in PyTorch on a GPU; gpu.py asks.

Reads lines "batch precision way steps" (64 bf16 compile 100) and answers each with the seconds of a step.
Precisions: fp32, tf32, bf16 (autocast). Ways: eager, as one writes it; and compile, where the forward
pass and the loss are torch.compile's with mode="reduce-overhead" (CUDA graphs) and the optimizer is the
fused one. The images lie on the GPU as bytes, as ours do; the rows of a batch come from the host."""
import statistics, sys, time, warnings
import torch
import torch.nn.functional as F
from net import Net

WARM_UP, AT_A_TIME, ROWS = 20, 20, 1437
device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
on_gpu = device.type == "cuda"
warnings.simplefilter("ignore")


class Trainer:
    def __init__(self, batch, precision, compiled):
        torch.manual_seed(0)
        self.batch, self.bf16 = batch, precision == "bf16"
        self.tf32 = precision == "tf32"
        self.model = Net().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9,
                                         fused=True if compiled and on_gpu else None)
        self.loss = torch.compile(self.forward, mode="reduce-overhead") if compiled else self.forward
        self.images = torch.randint(0, 256, (ROWS, 1, 28, 28), dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, 10, (ROWS,), device=device)

    def forward(self, images, labels):
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bf16):
            return F.nll_loss(self.model((images.float() / 255 - 0.1307) / 0.3081), labels)

    def step(self):
        rows = torch.randint(0, ROWS, (self.batch,))
        rows = rows.pin_memory().to(device, non_blocking=True) if on_gpu else rows
        self.optimizer.zero_grad()
        self.loss(self.images[rows], self.labels[rows]).backward()
        self.optimizer.step()

    def run(self, steps):
        # Of the process, not of a trainer: set each time, since trainers take turns.
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = self.tf32
        begin = time.monotonic()
        for _ in range(steps):
            self.step()
        if on_gpu:
            torch.cuda.synchronize()
        return (time.monotonic() - begin) / steps


setting, trainers = None, {}
name = torch.cuda.get_device_name() if on_gpu else "cpu"
print("PyTorch %s, %s" % (torch.__version__, name), flush=True)
for line in sys.stdin:
    batch, precision, way, steps = line.split()
    if (batch, precision) != setting: # the trainers of the last one would only be in the way
        setting, trainers = (batch, precision), {}
        torch._dynamo.reset()
    if way not in trainers:
        trainers[way] = Trainer(int(batch), precision, way == "compile")
    trainers[way].run(WARM_UP)
    rounds = max(1, int(steps) // AT_A_TIME)
    print(statistics.median(trainers[way].run(AT_A_TIME) for _ in range(rounds)), flush=True)
