#!/bin/sh
# Tool:  torchdata 0.11.0 with PyTorch 2.15.0, StatefulDataLoader with StatefulDistributedSampler
# Guess: the saved state holds the epoch, so a resumed loader goes on in the same permutation.
# Seen:  it holds the place alone: without a second set_epoch the rest comes from epoch 0's permutation, without a word.
# > the epoch has 6 samples, 2 of them seen before the state was saved
# > set_epoch called again: the other 4 come
# > set_epoch not called: others come, of which some were seen or are missing
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 torchdata==0.11.0

python - <<'EOF' 2>"$tmp/errors" | verdict
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

def make(epoch):
    data = list(range(12))
    sampler = StatefulDistributedSampler(data, num_replicas=2, rank=0, shuffle=True, seed=3)
    if epoch:
        sampler.set_epoch(epoch)
    return StatefulDataLoader(data, batch_size=2, sampler=sampler)

loader = make(4)
batches = iter(loader)
seen = next(batches).tolist()
state = loader.state_dict()
rest = sum((batch.tolist() for batch in batches), [])
print(f'the epoch has {len(seen + rest)} samples, {len(seen)} of them seen before the state was saved')
for epoch, name in (4, 'set_epoch called again'), (0, 'set_epoch not called'):
    loader = make(epoch)
    loader.load_state_dict(state)
    got = sum((batch.tolist() for batch in loader), [])
    wrong = 'others come, of which some were seen or are missing'
    print(f'{name}:', f'the other {len(rest)} come' if got == rest else wrong if set(got) != set(rest) else 'same set')
EOF
