#!/bin/sh
# Tool:  mosaicml-streaming 0.13.0, MDSWriter and StreamingDataset, a column "ndarray"
# Guess: big-endian arrays, as NumPy reads them from MNIST's files, come back or are refused.
# Seen:  their bytes are kept and their order is not: the numbers come back as others, without a word.
# > <i4: [1, 2, 3] back as [1, 2, 3]
# > >i4: [1, 2, 3] back as [16777216, 33554432, 50331648]
# > >f8: [2.0] back as [3.16e-322]
# > transposed: [[0, 2], [1, 3]] back as [[0, 2], [1, 3]]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 mosaicml-streaming==0.13.0 numpy==2.1.3

python - "$tmp" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import numpy as np
from streaming import MDSWriter, StreamingDataset

def show(name, array):
    path = f'{sys.argv[1]}/{name}'
    with MDSWriter(out=path, columns={'x': 'ndarray'}) as writer:
        writer.write({'x': array})
    read = StreamingDataset(local=path, batch_size=1)[0]['x']
    print(f'{name}: {array.tolist()} back as {read.tolist()}')

show('<i4', np.array([1, 2, 3], '<i4'))
show('>i4', np.array([1, 2, 3], '>i4'))
show('>f8', np.array([2.], '>f8'))
show('transposed', np.arange(4).reshape(2, 2).T)
EOF
