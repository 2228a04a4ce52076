#!/bin/sh
# Tool:  openvino 2026.4.1 on the CPU, a processor with bfloat16 (avx512_bf16), with numpy 2.4.6
# Guess: a model whose weights, input and output are 32-bit floats computes with these: 0.3 % off is an error.
# Seen:  it multiplies in bfloat16 where the processor can, and so gives other results than on the machine before it.
#        INFERENCE_PRECISION_HINT 'f32' keeps 32 bits.
# > 256 products of 1 and 1.003: sum 256
# > with INFERENCE_PRECISION_HINT f32: sum 256.8
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
grep -qsw avx512_bf16 /proc/cpuinfo || cannot "this processor has no bfloat16"
install openvino==2026.4.1 numpy==2.4.6
export OPENVINO_TELEMETRY_OPT_OUT=1

python - <<'EOF' 2>"$tmp/errors" | verdict
import numpy as np
import openvino as ov
from openvino import opset13 as ops

row = ops.parameter([1, 256], np.float32)
weights = ops.constant(np.full((256, 16), 1.003, np.float32))
model = ov.Model([ops.matmul(row, weights, False, False)], [row])

def total(options):
    return f'{ov.compile_model(model, "CPU", options)(np.ones((1, 256), np.float32))[0][0, 0]:.4g}'

print('256 products of 1 and 1.003: sum', total({}))
print('with INFERENCE_PRECISION_HINT f32: sum', total({'INFERENCE_PRECISION_HINT': 'f32'}))
EOF
