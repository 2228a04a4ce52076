#!/bin/sh
# Tool:  PyTorch 2.15.0, FlopCounterMode of torch.utils.flop_counter, a training step of a convolution with groups
# Guess: three times the forward pass, as without groups: itself and two gradients of as much work.
# Seen:  the gradient of the weights counts once for each group. A step of a depthwise layer of 64 channels is as
#        66 passes, and a utilization made of it far too good.
# > 1 group: forward 14745600, training step 3 times as much
# > 8 groups: forward 1843200, training step 10 times as much
# > 64 groups: forward 230400, training step 66 times as much
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.utils.flop_counter import FlopCounterMode

def flops(layer, train):
    with FlopCounterMode(display=False) as counter:
        y = layer(x)
        if train:
            y.sum().backward()
    return counter.get_total_flops()

x = torch.randn(2, 64, 10, 10, requires_grad=True)
for groups in 1, 8, 64:
    layer = torch.nn.Conv2d(64, 64, 3, padding=1, groups=groups, bias=False)
    forward, step = flops(layer, False), flops(layer, True)
    print(f"{groups} group{'s' * (groups > 1)}: forward {forward}, training step {step / forward:g} times as much")
EOF
