#!/usr/bin/env python3
"""Usage: bench/gpu_step.py cuda|cpu [BATCH PRECISION WAY STEPS TURNS]    What gpu_step.c measures, in PyTorch.

Prints its version and GPU, then reads lines "batch precision way steps" and answers each with a line of JSON: the
seconds of a step and the bytes of memory it takes, or why there are none. With a request as arguments it answers that,
TURNS times; then it may be one of several ranks (DDP), which ddprun or torchrun starts. Precisions: fp32, tf32, bf16
(autocast). Ways, each with everything that the PyTorch guide to performance names for it:
    eager          as one writes it
    channels_last  and cudnn.benchmark, with the fused optimizer
    compile        that, and torch.compile(mode="max-autotune"), which has CUDA graphs of its own
    graph          channels_last with the whole step, optimizer included, as one CUDA graph
    compile+graph  the same of the compiled step
The images lie on the GPU as bytes, as ours do; the rows of a batch come from the host."""
import json, os, statistics, sys, time, warnings
import torch
import torch.distributed as dist
import torch.nn.functional as F
from net import Net

WARM_UP, AT_A_TIME, ROWS, BEFORE_CAPTURE = 20, 20, 1437, 11  # DDP wants 11 steps before a capture
device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
on_gpu = device.type == "cuda"
world_size = int(os.environ.get("WORLD_SIZE", 1)) if len(sys.argv) > 2 else 1
rank = int(os.environ["RANK"]) if world_size > 1 else 0
warnings.simplefilter("ignore")


class Trainer:
    def __init__(self, batch, precision, way):
        torch.manual_seed(0)
        self.batch, self.bf16, self.tf32 = batch, precision == "bf16", precision == "tf32"
        self.tuned, self.graph = way != "eager", None
        layout = torch.channels_last if self.tuned else torch.contiguous_format
        self.model = Net().to(device, memory_format=layout)
        if world_size > 1:
            self.model = torch.nn.parallel.DistributedDataParallel(
                self.model, gradient_as_bucket_view=True, static_graph=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9,
                                         fused=True if self.tuned and on_gpu else None)
        modes = {"compile": "max-autotune", "compile+graph": "max-autotune-no-cudagraphs"}
        self.loss = torch.compile(self.forward, mode=modes[way]) if way in modes else self.forward
        self.layout = layout
        self.images = torch.randint(0, 256, (ROWS, 1, 28, 28), dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, 10, (ROWS,), device=device)
        self.rows = torch.zeros(batch, dtype=torch.long, device=device)
        self.set_flags()
        if way.endswith("graph"):
            self.capture()

    def set_flags(self):
        """They are the process's, and trainers take turns."""
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = self.tf32
        torch.backends.cudnn.benchmark = self.tuned

    def forward(self, images, labels):
        images = ((images.float() / 255 - 0.1307) / 0.3081).contiguous(memory_format=self.layout)
        with torch.autocast(device.type, torch.bfloat16, enabled=self.bf16):
            return F.nll_loss(self.model(images), labels)

    def compute(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.images[self.rows], self.labels[self.rows]).backward()
        self.optimizer.step()

    def capture(self):
        if not on_gpu:
            raise RuntimeError("a CUDA graph needs a GPU")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(BEFORE_CAPTURE):
                self.compute()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.compute()

    def step(self):
        rows = torch.randint(0, ROWS, (self.batch,))
        self.rows.copy_(rows.pin_memory() if on_gpu else rows, non_blocking=True)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.compute()

    def run(self, steps):
        self.set_flags()
        begin = time.monotonic()
        for _ in range(steps):
            self.step()
        if on_gpu:
            torch.cuda.synchronize()
        return (time.monotonic() - begin) / steps


def measure(trainers, batch, precision, way, steps):
    at_a_time = min(steps, AT_A_TIME)
    before = 0
    if way not in trainers:
        if on_gpu:
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        trainers[way] = [Trainer(batch, precision, way), None]
    trainer, memory = trainers[way]
    trainer.run(WARM_UP if steps >= AT_A_TIME else 2)
    seconds = statistics.median(trainer.run(at_a_time) for _ in range(steps // at_a_time))
    if on_gpu and memory is None: # the peak from its making to here; what other trainers keep is not its own
        trainers[way][1] = memory = torch.cuda.max_memory_allocated() - before
    return {"seconds": seconds, "memory": memory}


def answer(trainers, batch, precision, way, steps):
    try:
        return measure(trainers, batch, precision, way, steps)
    except Exception as error:
        return {"missing": "%s: %s" % (type(error).__name__, str(error).strip().split("\n")[0][:200])}


def requests():
    if len(sys.argv) > 2:
        return [" ".join(sys.argv[2:6])] * int(sys.argv[6])
    return sys.stdin


if on_gpu and not torch.cuda.is_available():
    sys.exit("gpu_step.py: PyTorch %s finds no GPU" % torch.__version__)
if world_size > 1:
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_gpu else "gloo")
if rank == 0:
    print("PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_name() if on_gpu else "cpu"), flush=True)
setting, trainers = None, {}
for line in requests():
    batch, precision, way, steps = line.split()
    if (batch, precision) != setting:  # the trainers of the last one would only be in the way
        setting, trainers = (batch, precision), {}
        torch._dynamo.reset()
    answered = answer(trainers, int(batch), precision, way, int(steps))
    if rank == 0:
        print(json.dumps(answered), flush=True)
if world_size > 1:
    sys.stdout.flush()
    os._exit(0)  # at its ordinary end a job may abort: threads of PyTorch's that still run
