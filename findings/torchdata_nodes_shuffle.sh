#!/bin/sh
# Tool:  torchdata 0.11.0 with PyTorch 2.15.0, nodes.Loader(SamplerWrapper(RandomSampler(...))), as its migration guide has it
# Guess: saved after 2 of 10 samples and loaded, the other 8 come.
# Seen:  the state has numbers only: of a new order, the first 2 are left out. In the first epoch, a seed hides it.
# > RandomSampler, epoch 0: the other 8
# > RandomSampler, epoch 1: samples twice or never
# > RandomSampler, epoch 2: samples twice or never
# > DistributedSampler, epoch 2: the other 8
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 torchdata==0.11.0

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.utils.data import DistributedSampler, RandomSampler
from torchdata.nodes import Loader, SamplerWrapper

data = range(10)

def seeded():
    return RandomSampler(data, generator=torch.Generator().manual_seed(1))

def show(make, epoch):
    loader = Loader(SamplerWrapper(make()))
    for _ in range(epoch):
        list(loader)
    samples = iter(loader)
    seen = [next(samples), next(samples)]
    state = loader.state_dict()
    loader = Loader(SamplerWrapper(make()))
    loader.load_state_dict(state)
    whole = sorted(seen + list(loader)) == list(data)
    print(f"{type(make()).__name__}, epoch {epoch}: {'the other 8' if whole else 'samples twice or never'}")

show(seeded, 0)
show(seeded, 1)
show(seeded, 2)
show(lambda: DistributedSampler(data, 1, 0), 2)
EOF
