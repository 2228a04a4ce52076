#!/bin/sh
# Tool:  tinygrad 0.14.0, NaN in relu(), max(), max_pool2d() and sort()
# Guess: as in PyTorch and numpy: a NaN, as after a step that diverged, goes through to the loss.
# Seen:  relu() makes it 0, a maximum keeps it only if it comes first, and sort() loses a number beside it. So a network
#        whose weights are NaN has a loss of log(classes), which looks like the start of a training.
# > relu [nan, 1, -2]: [0.0, 1.0, 0.0]
# > max [nan, 1, -2]: nan, max [1, nan, -2]: 1.0
# > max_pool2d [1, nan, -2]: 1.0
# > sort [1, nan, -2]: [-2.0, 1.0, 1.0]
# > loss of a network of two layers, the first all NaN: 2.303
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
command -v clang >/dev/null || cannot "tinygrad needs clang"
install tinygrad==0.14.0
export DEV=CPU XDG_CACHE_HOME="$tmp/cache"

python - 2>"$tmp/errors" <<'EOF' | verdict
from math import nan
from tinygrad import Tensor

first, second = Tensor([nan, 1.0, -2.0]), Tensor([1.0, nan, -2.0])
print('relu [nan, 1, -2]:', first.relu().tolist())
print(f'max [nan, 1, -2]: {first.max().item()}, max [1, nan, -2]: {second.max().item()}')
print('max_pool2d [1, nan, -2]:', second.reshape(1, 1, 3, 1).max_pool2d((3, 1)).item())
print('sort [1, nan, -2]:', second.sort()[0].tolist())
x, labels = Tensor.ones(4, 5), Tensor([1, 2, 3, 4])
loss = x.linear(Tensor.full((5, 8), nan)).relu().linear(Tensor.ones(8, 10)).sparse_categorical_crossentropy(labels)
print(f'loss of a network of two layers, the first all NaN: {loss.item():.3f}')
EOF
