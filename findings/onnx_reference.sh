#!/bin/sh
# Tool:  the reference evaluator of ONNX 1.23.2, beside ONNX Runtime 1.32.0
# Guess: what a runtime computes can be checked against the reference, to rounding.
# Seen:  the reference takes the logarithm of a softmax that is already 0: a loss of 200 is infinite. Its LRN normalizes
#        the first of three equal channels, and leaves the others as they were.
# > LogSoftmax of 0, -200: [0.0, -inf], ONNX Runtime [0.0, -200.0]
# > SoftmaxCrossEntropyLoss: [inf], ONNX Runtime [200.0]
# > LRN, alpha 1, of three ones: [0.68, 1.0, 1.0], ONNX Runtime [0.68, 0.59, 0.68]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import numpy
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

def show(what, name, inputs, **settings):
    feed = {f'x{i}': x for i, x in enumerate(inputs)}
    infos = [helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for key, x in feed.items()]
    outputs = [helper.make_tensor_value_info('y', TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(name, list(feed), ['y'], **settings)], name, infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=['CPUExecutionProvider'])
    reference, seen = ([round(float(y), 2) for y in numpy.ravel(run(None, feed)[0])]
                       for run in (ReferenceEvaluator(model).run, session.run))
    print(f'{what}: {reference}, ONNX Runtime {seen}')

scores = numpy.array([[0, -200]], 'float32')
show('LogSoftmax of 0, -200', 'LogSoftmax', [scores])
show('SoftmaxCrossEntropyLoss', 'SoftmaxCrossEntropyLoss', [scores, numpy.array([1])])
show('LRN, alpha 1, of three ones', 'LRN', [numpy.ones((1, 3, 1, 1), 'float32')], size=3, alpha=1.)
EOF
