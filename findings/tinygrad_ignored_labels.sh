#!/bin/sh
# Tool:  tinygrad 0.14.0, sparse_categorical_crossentropy with ignore_index
# Guess: whatever its value, labels equal to it count neither in the sum nor in the mean.
# Seen:  -1, which is its default too, is heard by half: such labels leave the sum, but the mean is over all labels.
# > ignore_index=-100: 0.216 by tinygrad, 0.216 by hand
# > ignore_index=-1: 0.108 by tinygrad, 0.216 by hand
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
command -v clang >/dev/null || cannot "tinygrad needs clang"
install tinygrad==0.14.0
export XDG_CACHE_HOME="$tmp/cache"

python - 2>"$tmp/errors" <<'EOF' | verdict
import math
from tinygrad import Tensor

logits = [[1.0, 2.0, 3.0], [0.0, 1.0, 0.0], [5.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
for ignored in -100, -1:
    labels = [2, ignored, 0, ignored]
    loss = Tensor(logits).sparse_categorical_crossentropy(Tensor(labels), ignore_index=ignored).item()
    kept = [(row, label) for row, label in zip(logits, labels) if label != ignored]
    mean = sum(math.log(sum(map(math.exp, row))) - row[label] for row, label in kept) / len(kept)
    print(f'ignore_index={ignored}: {loss:.3f} by tinygrad, {mean:.3f} by hand')
EOF
