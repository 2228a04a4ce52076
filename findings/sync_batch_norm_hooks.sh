#!/bin/sh
# Tool:  PyTorch 2.15.0, SyncBatchNorm.convert_sync_batchnorm
# Guess: it keeps a layer's hooks, and a class of one's own that derives from BatchNorm1d keeps its forward.
# Seen:  both are lost without a word: each layer is replaced by a plain SyncBatchNorm with its parameters.
# > hook called: 1 time before, 0 times after
# > own forward, 10 x BatchNorm1d: output 10.0 before, 1.0 after
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import torch

class Scaled(torch.nn.BatchNorm1d):
    def forward(self, x):
        return 10 * super().forward(x)

calls = []

def run(model):
    calls.clear()
    output = model(torch.ones(1, 1)).item()
    return len(calls), round(output, 3)

model = torch.nn.Sequential(torch.nn.BatchNorm1d(1), Scaled(1)).eval()
model[0].register_forward_hook(lambda *_: calls.append(1))
before = run(model)
after = run(torch.nn.SyncBatchNorm.convert_sync_batchnorm(model))
print(f'hook called: {before[0]} time before, {after[0]} times after')
print(f'own forward, 10 x BatchNorm1d: output {before[1]} before, {after[1]} after')
EOF
