#!/bin/sh
# Tool:  PyTorch 2.15.0, the schedule of a run that is resumed for more epochs than it was started for
# Guess: the new schedule keeps its length, the state loaded says how far the run has come; or it is refused.
# Seen:  load_state_dict() brings the old length back, without a word. At its end the rate is 0, from where a cosine
#        climbs again and the others stay: the further epochs train nothing.
# > CosineAnnealingLR: 4 epochs by [1, 0.85, 0.5, 0.15], then resumed for 8 [0.0, 0.15, 0.5, 0.85]
# > PolynomialLR: 4 epochs by [1, 0.75, 0.5, 0.25], then resumed for 8 [0.0, 0.0, 0.0, 0.0]
# > LinearLR: 4 epochs by [1, 0.75, 0.5, 0.25], then resumed for 8 [0.0, 0.0, 0.0, 0.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, PolynomialLR

schedules = {'CosineAnnealingLR': CosineAnnealingLR, 'PolynomialLR': PolynomialLR,
             'LinearLR': lambda optimizer, epochs: LinearLR(optimizer, 1, 0, epochs)}

def start(name, epochs):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1)
    return optimizer, schedules[name](optimizer, epochs)

def train(optimizer, schedule, epochs):
    rates = []
    for _ in range(epochs):
        rates.append(round(optimizer.param_groups[0]['lr'], 2))
        optimizer.step()
        schedule.step()
    return rates

for name in schedules:
    optimizer, schedule = start(name, 4)
    first = train(optimizer, schedule, 4)
    states = optimizer.state_dict(), schedule.state_dict()
    optimizer, schedule = start(name, 8)
    optimizer.load_state_dict(states[0])
    schedule.load_state_dict(states[1])
    print(f'{name}: 4 epochs by {first}, then resumed for 8 {train(optimizer, schedule, 4)}')
EOF
