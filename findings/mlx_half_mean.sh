#!/bin/sh
# Tool:  mlx 0.32.4 (its CPU wheel for Linux)
# Guess: the mean of 1,000 times 100 in float16 is 100, as in numpy and PyTorch, which add in float32.
# Seen:  mlx adds in float16, whose largest number is 65504: infinite. So are losses of a large batch, and BatchNorm gives NaN.
# > numpy's mean: 100
# > mean: inf
# > l1_loss: inf
# > BatchNorm: nan
# > mean, as float32: 100
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install "mlx[cpu]==0.32.4" numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import mlx.core as mx
import mlx.nn as nn
import numpy

half = numpy.full(1000, 100, 'float16')
array = mx.array(half)
seen = {"numpy's mean": half.mean(), 'mean': mx.mean(array), 'l1_loss': nn.losses.l1_loss(array, mx.zeros_like(array)),
        'BatchNorm': nn.BatchNorm(1)(array[:, None])[0, 0], 'mean, as float32': mx.mean(array.astype(mx.float32))}
for name, value in seen.items():
    print(f'{name}: {abs(float(value)):g}')
EOF
