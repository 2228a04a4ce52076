#!/bin/sh
# Tool:  ONNX Runtime 1.32.0
# Guess: NaN in, NaN out: a model whose training has failed answers NaN, as in PyTorch.
# Seen:  Relu keeps NaN, but MaxPool and GlobalMaxPool pass it over, so that good numbers come out. ReduceMax keeps only
#        one that comes first.
# > Relu: [nan, 1.0]
# > MaxPool: [1.0]
# > GlobalMaxPool: [1.0]
# > ReduceMax: [nan], turned round [1.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import numpy
import onnxruntime
from onnx import TensorProto, helper

x = numpy.array([[[numpy.nan, 1]]], 'float32')
for name, settings in (('Relu', {}), ('MaxPool', {'kernel_shape': [2]}), ('GlobalMaxPool', {}), ('ReduceMax', {})):
    inputs = [helper.make_tensor_value_info('x', TensorProto.FLOAT, [1, 1, 2])]
    outputs = [helper.make_tensor_value_info('y', TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(name, ['x'], ['y'], **settings)], name, inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=['CPUExecutionProvider'])
    seen, turned = (session.run(None, {'x': x[..., ::order]})[0].ravel().tolist() for order in (1, -1))
    print(f'{name}: {seen}' + (f', turned round {turned}' if name == 'ReduceMax' else ''))
EOF
