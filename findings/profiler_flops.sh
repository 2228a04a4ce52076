#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.profiler with with_flops=True, which counts matrix products and 2-D convolutions
# Guess: a training step is three forward passes, for both.
# Seen:  for a linear layer. Of a convolution nothing counts on the way back, so a third, and with padding='same', which
#        is the same convolution as padding=1, nothing at all.
# > Linear: forward 819200, training step 2457600
# > Conv2d, padding=1: forward 1843200, training step 1843200
# > Conv2d, padding='same': forward 0, training step 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.profiler import ProfilerActivity, profile

def flops(layer, x, train):
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as profiler:
        y = layer(x)
        if train:
            y.sum().backward()
    return sum(event.flops for event in profiler.key_averages())

pixels = torch.ones(1, 8, 40, 40, requires_grad=True)
for name, layer, x in (('Linear', torch.nn.Linear(64, 64), torch.ones(100, 64, requires_grad=True)),
                       ('Conv2d, padding=1', torch.nn.Conv2d(8, 8, 3, padding=1), pixels),
                       ("Conv2d, padding='same'", torch.nn.Conv2d(8, 8, 3, padding='same'), pixels)):
    print(f'{name}: forward {flops(layer, x, False)}, training step {flops(layer, x, True)}')
EOF
