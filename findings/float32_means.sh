#!/bin/sh
# Tool:  numba 0.68.1 (np.mean in an njit function), bottleneck 1.6.0 (nanmean), mlx 0.32.4 (mean, on x86-64),
#        numexpr 2.14.2 (sum)
# Guess: the mean of 33,554,432 times 1 in 32 bits, fewer numbers than MNIST has pixels, is 1, as by numpy and pandas.
# Seen:  they add one by one in 32 bits, where 16,777,216 + 1 is 16,777,216. numba's page calls np.mean supported.
# > numpy: sum 33554432, mean 1.0
# > numba: sum 16777216, mean 0.5
# > bottleneck: sum 16777216, mean 0.5
# > mlx: sum 16777216, mean 0.5
# > numexpr: sum 16777216
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -m)" = x86_64 ] || cannot "mlx computes otherwise on other processors"
install numba==0.68.1 bottleneck==1.6.0 "mlx[cpu]==0.32.4" numexpr==2.14.2 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import bottleneck
import mlx.core as mx
import numba
import numexpr
import numpy as np

@numba.njit
def by_numba(x):
    return np.sum(x), np.mean(x)

ones = np.ones(1 << 25, np.float32)
array = mx.array(ones)
for name, (total, mean) in {'numpy': (ones.sum(), ones.mean()), 'numba': by_numba(ones),
                            'bottleneck': (bottleneck.nansum(ones), bottleneck.nanmean(ones)),
                            'mlx': (array.sum().item(), array.mean().item())}.items():
    print(f'{name}: sum {total:.0f}, mean {mean:.1f}')
print(f"numexpr: sum {numexpr.evaluate('sum(ones)'):.0f}")
EOF
