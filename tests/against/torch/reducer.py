"""Usage: reducer.py uses|bf16|power      Our Reducer beside PyTorch's DDP over gloo, step by step.
uses: a network with a tied and a frozen matrix. bf16, power: the hooks of beyond/comm_hooks beside bf16_compress_hook and
powerSGD_hook, on the same drawn gradients; also the numbers that travel."""
import logging, os, subprocess, sys
import numpy as np
import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel
import ours

STEPS, START = 8, 2  # START: as reducer_peer.c has it
WIDTH, ROWS = 12, 4
SHAPES = ((24, 40), (24,), (16, 3, 3, 3), (16,), (4, 4), (10, 64), (10,))
logging.getLogger(powerSGD_hook.__name__).setLevel(logging.WARNING)


class Tied(nn.Module):
    """Four matrices in five layers: the second is used twice, the third is frozen."""

    def __init__(self):
        super().__init__()
        values = torch.sin(torch.arange(1, 4 * WIDTH * WIDTH + 1, dtype=torch.float32)) / 2
        self.w = nn.ParameterList(nn.Parameter(w.clone()) for w in values.view(4, WIDTH, WIDTH))
        self.w[2].requires_grad_(False)

    def forward(self, x):
        for i in (0, 1, 1, 2, 3):
            x = torch.tanh(x @ self.w[i].T)
        return x


def train_tied(rank, world):
    model = DistributedDataParallel(Tied())
    weights = []
    for step in range(STEPS):
        row, i = torch.arange(ROWS)[:, None], torch.arange(WIDTH)[None]
        x = torch.cos((1 + 7 * step + 3 * rank + 5 * row + 2 * i).float())
        model.zero_grad()
        nn.functional.mse_loss(model(x), x).backward()
        assert model.module.w[2].grad is None  # no gradient
        with torch.no_grad():
            for w in model.parameters():
                w -= 0.5 * w.grad if w.grad is not None else 0
        weights.append(torch.cat([w.detach().flatten() for w in model.module.w]).numpy())
    return weights


class Drawn(nn.Module):
    """Parameters whose gradients are what backward is asked for: loss = sum of parameter * gradient."""

    def __init__(self):
        super().__init__()
        self.p = nn.ParameterList(nn.Parameter(torch.zeros(shape)) for shape in SHAPES)

    def forward(self, gradients):
        return sum((p * g).sum() for p, g in zip(self.p, gradients))


def drawn(step, rank):
    torch.manual_seed(1000 * step + rank)
    values = torch.empty(sum(int(np.prod(shape)) for shape in SHAPES)).uniform_(-1, 1)
    return [part.view(shape) for part, shape in zip(values.split([int(np.prod(s)) for s in SHAPES]), SHAPES)]


def first_qs(rank):
    """Our hook's initial Q of each matrix that it compresses, by shape: [m][r]."""
    sizes = {}
    for shape in SHAPES:
        n, m = shape[0], int(np.prod(shape)) // shape[0]
        r = min(n, m, rank)
        if 2 * (n + m) * r < n * m:
            sizes[shape] = (r, m)
    torch.manual_seed(0)
    values = torch.empty(sum(r * m for r, m in sizes.values())).uniform_(-1, 1)
    return {shape: part.view(r, m).T for part, (shape, (r, m)) in
            zip(values.split([r * m for r, m in sizes.values()]), sizes.items())}


def power_hook(state, bucket):
    """powerSGD_hook, which starts from our Q, and not from numbers of its own."""
    if state.iter >= START and bucket.index() not in state.p_memory_dict:
        qs = first_qs(state.matrix_approximation_rank)
        chosen = [p.shape for p in bucket.parameters() if tuple(p.shape) in qs]
        empty = [torch.empty(0)]
        state.q_memory_dict[bucket.index()] = torch.cat([qs[tuple(shape)].flatten() for shape in chosen] or empty)
        state.p_memory_dict[bucket.index()] = torch.empty(
            sum(shape[0] * qs[tuple(shape)].shape[1] for shape in chosen))
    return powerSGD_hook.powerSGD_hook(state, bucket)


def hooked(rank, world, hook_rank):
    """The gradients after each step, and how many numbers the hook makes of all in a step."""
    # powerSGD_hook waits in gloo's threads, of which there are two: with several buckets they wait for each other.
    model = DistributedDataParallel(Drawn(), bucket_cap_mb=25 if hook_rank else 3e-3)
    state = None
    if hook_rank:
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=hook_rank, start_powerSGD_iter=START)
        model.register_comm_hook(state, power_hook)
    else:
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    gradients = []
    for step in range(STEPS):
        model.zero_grad()
        model(drawn(step, rank)).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.module.p]).numpy().copy())
    return gradients, state and state.compression_stats()[2] / (STEPS - START)


def peer(*words):
    """Our rows of numbers, one a step, and the bytes that rank 0 sent in each."""
    done = subprocess.run([os.path.join(ours.BUILD, "tests/against/torch/reducer_peer"), *map(str, words)],
                          capture_output=True, timeout=ours.ENDLESS)
    assert done.returncode == 0, done.stderr.decode()
    sent = [int(line) for line in done.stderr.decode().splitlines() if line.isdigit()]
    return np.frombuffer(done.stdout, np.float32).reshape(STEPS, -1), sent


def differences(mine, due):
    """By step, relative to the largest number."""
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(mine, due, strict=True)]


def show(what, off, tolerance, more=""):
    print("%s: off by %s%s" % (what, " ".join("%.1e" % x for x in off), more), flush=True)
    assert max(off) <= tolerance, what


def compare_uses():
    for world in (2, 3, 4):
        off = differences(peer("uses", world, STEPS)[0], ours.ranks(train_tied, world)[0])
        show("tied and frozen on %d ranks" % world, off, 1e-6)


def compare_bf16():
    numel = sum(int(np.prod(shape)) for shape in SHAPES)
    for world in (2, 3, 4):
        mine, sent = peer("bf16", world, STEPS)
        # Two ranks have one order of additions; with more each addition may round another way, by 2^-8.
        show("bf16_compress_hook on %d ranks" % world, differences(mine, ours.ranks(hooked, world, 0)[0][0]),
             (world - 2) and (world - 1) * 2 ** -7, "; rank 0 sends %d bytes for %d numbers" % (sent[0], numel))
        assert world != 2 or set(sent) == {2 * numel}


def compare_power():
    numel = sum(int(np.prod(shape)) for shape in SHAPES)
    for world, rank in ((2, 1), (2, 2), (2, 3), (2, 4), (3, 2), (4, 1)):
        mine, sent = peer("power", world, STEPS, rank)
        due, after = ours.ranks(hooked, world, rank)[0]
        show("powerSGD_hook of rank %d on %d ranks" % (rank, world), differences(mine, due), 1e-5,
             "; %d of %d bytes" % (sent[-1], sent[0]))
        # Rank 0 sends all numbers once if there are two ranks.
        assert world != 2 or (sent[0] == 4 * numel and set(sent[START:]) == {4 * after}), (sent, after)


if __name__ == "__main__":
    {"uses": compare_uses, "bf16": compare_bf16, "power": compare_power}[sys.argv[1]]()
