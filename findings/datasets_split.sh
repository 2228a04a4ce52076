#!/bin/sh
# Tool:  datasets 5.2.0, split_dataset_by_node
# Guess: as DistributedSampler: all ranks get equally many rows, of which the first ones are 0, 1 and 2.
# Seen:  ranks get blocks of unequal size, so one of them has a batch more; a streamed dataset is dealt out by turns.
# > Dataset: [0, 1, 2, 3] [4, 5, 6] [7, 8, 9]
# > IterableDataset: [0, 3, 6, 9] [1, 4, 7] [2, 5, 8]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install datasets==5.2.0

HF_HOME=$tmp python - <<'EOF' 2>"$tmp/errors" | verdict
from datasets import Dataset
from datasets.distributed import split_dataset_by_node

rows = Dataset.from_dict({'row': list(range(10))})
for data in rows, rows.to_iterable_dataset():
    ranks = [[row['row'] for row in split_dataset_by_node(data, rank, 3)] for rank in range(3)]
    print(f'{type(data).__name__}:', *ranks)
EOF
