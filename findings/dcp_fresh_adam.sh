#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.distributed.checkpoint.load into the state_dict() of a new Adam
# Guess: Adam's step count and moments come from the checkpoint, or load says what it left out.
# Seen:  the rate comes, the moments do not, without a word: a new Adam has no state, so nothing asks for it.
# > saved: rate 0.1, state of 1 parameter
# > loaded into a new Adam with rate 0.3: rate 0.1, state of 0 parameters
# > loaded into one that made a step: rate 0.1, state of 1 parameter
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - "$tmp/saved" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import torch
import torch.distributed.checkpoint as dcp

def adam(rate, steps):
    parameter = torch.nn.Parameter(torch.zeros(3))
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.Adam([parameter], lr=rate)
    for _ in range(steps):
        optimizer.step()
    return optimizer

def show(name, optimizer):
    count = len(optimizer.state)
    print(f"{name}: rate {optimizer.param_groups[0]['lr']}, state of {count} parameter{'s' * (count != 1)}")

saved = adam(0.1, 5)
dcp.save({'optimizer': saved.state_dict()}, checkpoint_id=sys.argv[1])
show('saved', saved)
for steps, name in (0, 'loaded into a new Adam with rate 0.3'), (1, 'loaded into one that made a step'):
    optimizer = adam(0.3, steps)
    state = {'optimizer': optimizer.state_dict()}
    dcp.load(state, checkpoint_id=sys.argv[1])
    optimizer.load_state_dict(state['optimizer'])
    show(name, optimizer)
EOF
