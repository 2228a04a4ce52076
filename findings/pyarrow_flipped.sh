#!/bin/sh
# Tool:  pyarrow 26.0.1, tensors from NumPy arrays that are views: rows of images upside down, big-endian numbers
# Guess: refused, as for a view by columns or for a list of big-endian numbers, or the same values after the way back.
# Seen:  other values, without a word. Flipped from left to right, all is well.
# > FixedShapeTensorArray, as it is: [[0, 1, 2], [3, 4, 5]]
# > FixedShapeTensorArray, left to right: [[2, 1, 0], [5, 4, 3]]
# > FixedShapeTensorArray, upside down: [[3, 5, 1], [4, 0, 2]]
# > Tensor, as it is: [1, 2, 3]
# > Tensor, big-endian: [16777216, 33554432, 50331648]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install pyarrow==26.0.1 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import numpy as np
import pyarrow as pa

images = np.arange(6).reshape(1, 2, 3)
for name, view in ('as it is', images), ('left to right', images[:, :, ::-1]), ('upside down', images[:, ::-1]):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(view)
    print(f'FixedShapeTensorArray, {name}:', tensors.to_numpy_ndarray()[0].tolist())
for name, order in ('as it is', '<'), ('big-endian', '>'):
    print(f'Tensor, {name}:', pa.Tensor.from_numpy(np.array([1, 2, 3], order + 'i4')).to_numpy().tolist())
EOF
