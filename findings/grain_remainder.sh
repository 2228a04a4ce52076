#!/bin/sh
# Tool:  grain 0.2.18, IndexSampler for 3 ranks with ShardOptions(drop_remainder=False)
# Guess: nothing is dropped: of 10 samples, rank 0 reads 4 and the others 3.
# Seen:  rank 0 stops after 3, without a word: sample 3 is lost. drop_remainder=True loses one as well, but warns.
# > drop_remainder=False, 1 epoch: 0 1 2 | 4 5 6 | 7 8 9
# > drop_remainder=True, 1 epoch: 0 1 2 | 3 4 5 | 6 7 8, with a warning
# > drop_remainder=False, 2 epochs: 0 1 2 3 0 1 | 4 5 6 4 5 6 | 7 8 9 7 8 9
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install grain==0.2.18

python - 2>"$tmp/errors" <<'EOF' | verdict
import logging
import grain

warnings = []
logging.getLogger('absl').handlers.clear()
logging.getLogger('absl').addFilter(lambda record: warnings.append(record) or False)

def show(drop, epochs):
    warnings.clear()
    ranks = []
    for rank in range(3):
        options = grain.sharding.ShardOptions(rank, 3, drop_remainder=drop)
        sampler = grain.samplers.IndexSampler(10, options, shuffle=False, num_epochs=epochs)
        loader = grain.DataLoader(data_source=range(10), sampler=sampler, worker_count=0)
        ranks.append(' '.join(map(str, loader)))
    print(f"drop_remainder={drop}, {epochs} epoch{'s' * (epochs > 1)}:", ' | '.join(ranks), end='')
    print(', with a warning' if warnings else '')

show(False, 1)
show(True, 1)
show(False, 2)
EOF
