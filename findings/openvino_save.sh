#!/bin/sh
# Tool:  openvino 2026.4.1, save_model(), with numpy 2.4.6
# Guess: a model of 32-bit weights is saved with these.
# Seen:  with 16-bit ones, without a word: too large becomes 65504, too small becomes 0.
# > model: [100000.0, 2049.0, 1e-08, 1.0]
# > saved: [65504.0, 2048.0, 0.0, 1.0]
# > saved with compress_to_fp16=False: [100000.0, 2049.0, 1e-08, 1.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install openvino==2026.4.1 numpy==2.4.6
export OPENVINO_TELEMETRY_OPT_OUT=1

python - "$tmp/model.xml" <<'EOF' 2>"$tmp/errors" | verdict
import sys
import numpy as np
import openvino as ov
from openvino import opset13 as ops

def weights(model):  # as the model multiplies ones by them
    exact = ov.compile_model(model, 'CPU', {'INFERENCE_PRECISION_HINT': 'f32'})
    return [float(f'{w:.6g}') for w in exact(np.ones(4, np.float32))[0]]

ones = ops.parameter([4], np.float32)
model = ov.Model([ops.multiply(ones, ops.constant(np.array([1e5, 2049, 1e-8, 1], np.float32)))], [ones])
print('model:', weights(model))
ov.save_model(model, sys.argv[1])
print('saved:', weights(sys.argv[1]))
ov.save_model(model, sys.argv[1], compress_to_fp16=False)
print('saved with compress_to_fp16=False:', weights(sys.argv[1]))
EOF
