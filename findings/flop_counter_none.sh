#!/bin/sh
# Tool:  PyTorch 2.15.0, FlopCounterMode of torch.utils.flop_counter, layers on the CPU
# Guess: it counts an LSTM as it counts a GRU, and a transformer's layer in evaluation as in training.
# Seen:  what has one operation of its own counts as nothing, without a word: so an LSTM, and the fast path of
#        TransformerEncoderLayer without gradients.
# > GRU: training 589824, evaluation 589824
# > LSTM: training 0, evaluation 0
# > TransformerEncoderLayer: training 460800, evaluation 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.utils.flop_counter import FlopCounterMode

def flops(layer, train):
    layer.train(train)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(train):
        layer(torch.ones(2, 6, 64))
    return counter.get_total_flops()

for layer in (torch.nn.GRU(64, 64, batch_first=True), torch.nn.LSTM(64, 64, batch_first=True),
              torch.nn.TransformerEncoderLayer(64, 2, 16, batch_first=True)):
    print(f'{type(layer).__name__}: training {flops(layer, True)}, evaluation {flops(layer, False)}')
EOF
