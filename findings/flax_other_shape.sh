#!/bin/sh
# Tool:  flax 0.12.8 with JAX 0.10.2, flax.serialization.from_bytes
# Guess: the target's shapes and types are checked, which is what its documentation calls the use of a target.
# Seen:  names alone are: a layer of other size and type loads without a word.
# > target (2, 3) float32, saved (2, 5) float16: (2, 5) float16 comes back
# > target without the saved name: ValueError
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install flax==0.12.8 jax==0.10.2 jaxlib==0.10.2

python - <<'EOF' 2>"$tmp/errors" | verdict
import numpy
from flax.serialization import from_bytes, to_bytes

saved = to_bytes({'kernel': numpy.ones((2, 5), numpy.float16)})
target = numpy.zeros((2, 3), numpy.float32)
kernel = from_bytes({'kernel': target}, saved)['kernel']
print(f'target {target.shape} {target.dtype}, saved (2, 5) float16: {kernel.shape} {kernel.dtype} comes back')
try:
    from_bytes({'weight': target}, saved)
except Exception as error:
    print('target without the saved name:', type(error).__name__)
EOF
