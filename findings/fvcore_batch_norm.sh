#!/bin/sh
# Tool:  fvcore 0.1.5.post20221221 with PyTorch 2.15.0, FlopCountAnalysis
# Guess: counting a model's operations leaves the model as it was.
# Seen:  a model in training mode runs as in training: batch norm takes the example as a batch, dropout takes random
#        numbers. A rank that counts alone has other statistics and another dropout than it would have had.
# > torch.utils.flop_counter in eval mode: running mean 0.0, next random number the same
# > FlopCountAnalysis: running mean 0.1, next random number another
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 fvcore==0.1.5.post20221221 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from fvcore.nn import FlopCountAnalysis
from torch.utils.flop_counter import FlopCounterMode

def count(model, x):
    model.eval()
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops()

def show(name, count):
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(1), torch.nn.Dropout(), torch.nn.Linear(1, 1))
    torch.manual_seed(0)
    count(model, torch.ones(2, 1))
    random = torch.rand(1)
    torch.manual_seed(0)
    same = random == torch.rand(1)
    print(f"{name}: running mean {model[0].running_mean.item():.1f}, next random number {'the same' if same else 'another'}")

show('torch.utils.flop_counter in eval mode', count)
show('FlopCountAnalysis', lambda model, x: FlopCountAnalysis(model, x).total())
EOF
