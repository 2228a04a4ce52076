#!/bin/sh
# Tool:  ONNX 1.23.2, MaxPool, in onnxruntime 1.32.0
# Guess: as in PyTorch and Keras, windows do not overlap unless strides says so.
# Seen:  without strides the window moves by 1, so 4 x 4 values become 3 x 3; the checker is content.
# > kernel_shape 2 x 2: 4 x 4 becomes 3 x 3
# > kernel_shape and strides 2 x 2: 4 x 4 becomes 2 x 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import numpy
import onnx
import onnxruntime
from onnx import helper

for what, attributes in ('kernel_shape', {}), ('kernel_shape and strides', {'strides': [2, 2]}):
    node = helper.make_node('MaxPool', ['x'], ['y'], kernel_shape=[2, 2], **attributes)
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 1, side, side]) for name, side in (('x', 4), ('y', None)))
    model = helper.make_model(helper.make_graph([node], 'graph', [x], [y]))
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    pooled, = session.run(None, {'x': numpy.zeros((1, 1, 4, 4), 'f4')})
    print(what, '2 x 2: 4 x 4 becomes', *pooled.shape[2:3], 'x', *pooled.shape[3:])
EOF
