#!/bin/sh
# Tool:  safetensors 0.8.0, its NumPy functions, with numpy 2.4.6
# Guess: a transposed array is stored right, or refused as safetensors.torch refuses it.
# Seen:  it is stored in the order in which it lies in memory, under the transposed shape: other values come back.
# > given [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
# > back  [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install safetensors==0.8.0 numpy==2.4.6

python - <<'EOF' | verdict
import numpy as np
from safetensors.numpy import load, save

given = np.arange(6, dtype=np.float32).reshape(2, 3).T
print('given', given.tolist())
print('back ', load(save({'a': given}))['a'].tolist())
EOF
