#!/bin/sh
# Tool:  torchdata 0.11.0 with PyTorch 2.15.0, StatefulDataLoader, stopped after 4 of 10 samples in the second epoch
# Guess: RandomSampler resumes as shuffle=True does: the manual says that PyTorch's own samplers are patched for it.
# Seen:  they are not: a resumed loader draws a new order and leaves out its first 4, so samples come twice or never.
# > shuffle=True: the other 6
# > sampler=RandomSampler(data): others
# > batch_sampler=BatchSampler(RandomSampler(data), 2, False): others
# > sampler=torchdata's RandomSampler(data): the other 6
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 torchdata==0.11.0

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.utils.data import BatchSampler, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler as StatefulRandomSampler

data = list(range(10))

def samples(loader):
    return [sample for batch in loader for sample in batch.tolist()]

def show(name, make):
    torch.manual_seed(3)
    loader = make()
    samples(loader)
    batches = iter(loader)
    seen = samples([next(batches), next(batches)])
    state = loader.state_dict()
    torch.manual_seed(3)
    loader = make()
    loader.load_state_dict(state)
    rest = samples(loader)
    print(f"{name}: {'the other 6' if sorted(seen + rest) == data else 'others'}")

show('shuffle=True', lambda: StatefulDataLoader(data, 2, shuffle=True))
show('sampler=RandomSampler(data)', lambda: StatefulDataLoader(data, 2, sampler=RandomSampler(data)))
show('batch_sampler=BatchSampler(RandomSampler(data), 2, False)',
     lambda: StatefulDataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 2, False)))
show("sampler=torchdata's RandomSampler(data)",
     lambda: StatefulDataLoader(data, 2, sampler=StatefulRandomSampler(data)))
EOF
