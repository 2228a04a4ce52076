#!/bin/sh
# Tool:  PyTorch 2.15.0, ElasticDistributedSampler of torch.distributed.elastic
# Guess: with start_index=6, half of 12 samples, it gives the half of the shuffled epoch that is left, and the next epoch whole.
# Seen:  it gives samples 6 to 11, some of them for the second time, in that epoch and in all that follow; others never come.
# > epoch 0 until the checkpoint: 0 4 5 7 8 9, left: 1 2 3 6 10 11
# > epoch 0 resumed: 6 7 8 9 10 11
# > epoch 1 of the resumed sampler: 6 7 8 9 10 11
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
from torch.distributed.elastic.utils.data import ElasticDistributedSampler

def epoch_of(start, epoch=0):
    ranks = []
    for rank in range(2):
        sampler = ElasticDistributedSampler(range(12), num_replicas=2, rank=rank, start_index=start)
        sampler.set_epoch(epoch)
        ranks.append(list(sampler))
    return ranks

def names(samples):
    return ' '.join(map(str, sorted(samples)))

whole = epoch_of(0)
print('epoch 0 until the checkpoint:', names(sum((rank[:3] for rank in whole), [])), end='')
print(', left:', names(sum((rank[3:] for rank in whole), [])))
print('epoch 0 resumed:', names(sum(epoch_of(6), [])))
print('epoch 1 of the resumed sampler:', names(sum(epoch_of(6, 1), [])))
EOF
