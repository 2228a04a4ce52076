#!/bin/sh
# Tool:  hivemind 1.1.12 with PyTorch 2.15.0, CompressionType.FLOAT16, with which peers average gradients
# Guess: as Tensor.half(): what is too large comes back as inf, and a check for finite gradients skips the step.
# Seen:  values are cut to 65504, inf too: an overflow on a peer is averaged as a large, finite gradient. NaN stays.
# > half(): [1.0, inf, inf, -inf, nan]
# > FLOAT16: [1.0, 65504.0, 65504.0, -65504.0, nan]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 hivemind==1.1.12 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from hivemind.compression import deserialize_torch_tensor, serialize_torch_tensor
from hivemind.proto.runtime_pb2 import CompressionType

gradient = torch.tensor([1, 1e5, float('inf'), -float('inf'), float('nan')])
print('half():', gradient.half().float().tolist())
sent = serialize_torch_tensor(gradient, CompressionType.FLOAT16)
print('FLOAT16:', deserialize_torch_tensor(sent).tolist())
EOF
