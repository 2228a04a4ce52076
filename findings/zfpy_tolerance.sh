#!/bin/sh
# Tool:  zfpy 1.0.1.post0 (compress_numpy with a tolerance), as for a smaller checkpoint
# Guess: each number comes back within the tolerance; NaN and inf, which zfp's FAQ leaves to its lossless mode, stay or
#        are refused.
# Seen:  NaN and inf come back as small numbers without a word, so that a checkpoint that diverged looks sound. Beside a
#        large weight, others of 32 bits miss the tolerance by far. Without a tolerance, everything comes back.
# > NaN, tolerance 0.001: finite, smaller than 8
# > inf, tolerance 0.001: finite, smaller than 8
# > 100000, tolerance 1e-06: others off by more than 1e-04
# > NaN, no tolerance: the same bits
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -m)" = x86_64 ] || cannot "other processors make other numbers of NaN"
install zfpy==1.0.1.post0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import numpy as np
import zfpy

def back(weights, **mode):
    return zfpy.decompress_numpy(zfpy.compress_numpy(weights, **mode))

def with_one(value):
    weights = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    weights[5, 5] = value
    return weights

for value in np.nan, np.inf:
    read = back(with_one(value), tolerance=1e-3)[5, 5]
    name = 'NaN' if np.isnan(value) else 'inf'
    print(f'{name}, tolerance 0.001:', 'finite, smaller than 8' if abs(read) < 8 else read)
large = with_one(1e5)
off = np.abs(back(large, tolerance=1e-6) - large)
off[5, 5] = 0
print('100000, tolerance 1e-06: others off by', 'more than 1e-04' if off.max() > 1e-4 else off.max())
nan = with_one(np.nan)
print('NaN, no tolerance:', 'the same bits' if back(nan).tobytes() == nan.tobytes() else 'other bits')
EOF
