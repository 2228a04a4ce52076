#!/bin/sh
# Tool:  webdataset 1.0.2, with_epoch
# Guess: with_epoch(4) cuts the stream of 10 samples into epochs of 4: the second one goes on where the first ended.
# Seen:  each epoch starts the data anew, so that without shuffled shards the last 6 samples are never seen.
# > with_epoch(4), three epochs: 0 1 2 3, 0 1 2 3, 0 1 2 3
# > with_epoch(14), two epochs: 0 1 2 3 4 5 6 7 8 9 0 1 2 3, 0 1 2 3 4 5 6 7 8 9 0 1 2 3
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install webdataset==1.0.2

python - "$tmp/data.tar" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import webdataset

with webdataset.TarWriter(sys.argv[1]) as writer:
    for number in range(10):
        writer.write({'__key__': str(number), 'txt': str(number)})
for length, epochs, word in (4, 3, 'three'), (14, 2, 'two'):
    data = webdataset.WebDataset(sys.argv[1], shardshuffle=False).decode().with_epoch(length)
    seen = ', '.join(' '.join(sample['txt'] for sample in data) for _ in range(epochs))
    print(f'with_epoch({length}), {word} epochs: {seen}')
EOF
