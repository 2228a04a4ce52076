#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.manual_seed() on the CPU with a seed of more than 32 bits: its page allows 64
# Guess: all of the seed counts, so that seed + (rank << 32) gives each rank its own numbers.
# Seen:  only the lower 32 bits count: all ranks draw the same. initial_seed() hides it, as it has the whole.
# > rank 0: manual_seed(7) as rank 0, initial_seed() 7
# > rank 1: manual_seed(4294967303) as rank 0, initial_seed() 4294967303
# > rank 2: manual_seed(8589934599) as rank 0, initial_seed() 8589934599
# > seed 8: others
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch

def draws(seed):
    torch.manual_seed(seed)
    return torch.cat([torch.rand(1000), torch.randn(1000), torch.randperm(1000)])

for rank in range(3):
    seed = 7 + (rank << 32)
    said = 'as rank 0' if draws(seed).equal(draws(7)) else 'others'
    torch.manual_seed(seed)
    print(f'rank {rank}: manual_seed({seed}) {said}, initial_seed() {torch.initial_seed()}')
print('seed 8:', 'as rank 0' if draws(8).equal(draws(7)) else 'others')
EOF
