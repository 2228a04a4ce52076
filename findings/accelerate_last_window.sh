#!/bin/sh
# Tool:  accelerate 1.15.0 with PyTorch 2.15.0, accumulate()
# Guess: 5 batches with gradient_accumulation_steps=2 give two averages of two batches, and the fifth waits, or counts as it is.
# Seen:  at the end of the data the fifth makes a step of its own, with half of its gradient.
# > batches with gradient 1: steps with [1.0, 1.0, 0.5]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 accelerate==1.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
w = torch.nn.Linear(1, 1, bias=False)
sgd, loader = torch.optim.SGD(w.parameters(), lr=1.0), torch.utils.data.DataLoader(torch.ones(5, 1))
w, sgd, loader = accelerator.prepare(w, sgd, loader)
steps = []
for batch in loader:
    with accelerator.accumulate(w):
        before = w.weight.item()
        accelerator.backward(w(batch).mean())
        sgd.step()
        sgd.zero_grad()
        if accelerator.sync_gradients:
            steps.append(round(before - w.weight.item(), 4))
print('batches with gradient 1: steps with', steps)
EOF
