#!/bin/sh
# Tool:  numpy 2.4.6, numpy.load(FILE, mmap_mode=...) of an .npz
# Guess: arrays mapped, as from an .npy, so that ranks share the memory; or refused, as a member of a ZIP cannot be mapped.
# Seen:  each access reads a copy into memory, without a word; with 'r+', what is written into it is lost.
# > .npy: memmap, written 7, in the file 7
# > .npz: ndarray, written 7, in the file 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install numpy==2.4.6

python - "$tmp" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import numpy as np

np.save(f'{sys.argv[1]}/x.npy', np.zeros(3, int))
np.savez(f'{sys.argv[1]}/x.npz', x=np.zeros(3, int)) # without compression

def open_array(path, mode=None):
    loaded = np.load(path, mmap_mode=mode)
    return loaded if path.endswith('.npy') else loaded['x']

for suffix in '.npy', '.npz':
    path = f'{sys.argv[1]}/x{suffix}'
    x = open_array(path, 'r+')
    x[0] = 7
    kind, written = type(x).__name__, x[0]
    del x
    print(f'{suffix}: {kind}, written {written}, in the file {open_array(path)[0]}')
EOF
