#!/bin/sh
# Tool:  PyTorch 2.15.0, get_optimizer_state_dict of torch.distributed.checkpoint.state_dict
# Guess: asking a new optimizer for its state, to load a checkpoint into it or to save step 0, changes nothing.
# Seen:  it has made a step: Adam counts it, so its bias correction, and with it the training, is another one.
# > asked for its state: no, Adam's step after one step: 1, weight 0.900
# > asked for its state: yes, Adam's step after one step: 2, weight 0.926
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

for ask in False, True:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    if ask:
        get_optimizer_state_dict(model, adam)
    model(torch.ones(1, 1)).sum().backward()
    adam.step()
    step = int(adam.state[model.weight]['step'])
    asked = 'yes' if ask else 'no'
    print(f"asked for its state: {asked}, Adam's step after one step: {step}, weight {model.weight.item():.3f}")
EOF
