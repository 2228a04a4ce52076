#!/bin/sh
# Tool:  PyTorch 2.15.0, the DataLoader's default_collate of samples that are dictionaries
# Guess: a key that some samples lack is refused, and numbers keep their values in any order.
# Seen:  the first sample decides. A key that it lacks is left out, without a word, so shuffling decides whether a run
#        uses its weights or ends; and a whole number first makes 32 bits of all, where a fraction first makes 64.
# > the second lacks it: KeyError 'weight'
# > the first lacks it: only x
# > 16777217 first: torch.float32 16777216
# > 16777217 second: torch.float64 16777217
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
from torch.utils.data import DataLoader

def show(name, samples, seen):
    try:
        batch = next(iter(DataLoader(samples, batch_size=2)))
    except KeyError as error:
        print(f'{name}: KeyError {error}')
    else:
        print(f'{name}: {seen(batch)}')

both, one = {'x': 1.0, 'weight': 2.0}, {'x': 1.0}
show('the second lacks it', [both, one], lambda batch: 'only ' + ' '.join(batch))
show('the first lacks it', [one, both], lambda batch: 'only ' + ' '.join(batch))
numbers = [16777217, 0.5]
show('16777217 first', numbers, lambda batch: f'{batch.dtype} {batch[0]:.0f}')
show('16777217 second', numbers[::-1], lambda batch: f'{batch.dtype} {batch[1]:.0f}')
EOF
