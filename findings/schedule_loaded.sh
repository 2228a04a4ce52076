#!/bin/sh
# Tool:  PyTorch 2.15.0, learning-rate schedules of torch.optim
# Guess: the optimizer's and the schedule's states loaded, a run goes on with its learning rates, in whatever order that was done.
# Seen:  a schedule made after the optimizer's state was loaded puts its first learning rate there, and its load_state_dict leaves
#        it: some go on from that one to the end of the run.
# > StepLR: 0.0100 0.0010 0.0010, made after loading 0.0100 0.0010 0.0010
# > CosineAnnealingLR: 0.5000 0.3455 0.2061, made after loading 0.5000 0.3455 0.2061
# > LambdaLR: 0.5000 0.4000 0.3000, made after loading 1.0000 0.4000 0.3000
# > warm-up, then cosine: 0.8117 0.6113 0.3887, made after loading 0.2500 0.1883 0.1197
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import copy
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, SequentialLR, StepLR

def train(optimizer, schedule, steps):
    for _ in range(steps):
        yield f'{optimizer.param_groups[0]["lr"]:.4f}'
        optimizer.step()
        schedule.step()

def make_optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

schedules = {
    'StepLR': lambda optimizer: StepLR(optimizer, 2),
    'CosineAnnealingLR': lambda optimizer: CosineAnnealingLR(optimizer, 10),
    'LambdaLR': lambda optimizer: LambdaLR(optimizer, lambda step: 1 - step / 10),
    'warm-up, then cosine': lambda optimizer: SequentialLR(
        optimizer, [LinearLR(optimizer, 0.25, 1, 3), CosineAnnealingLR(optimizer, 7)], [3]
    ),
}
for name, make_schedule in schedules.items():
    optimizer = make_optimizer()
    schedule = make_schedule(optimizer)
    list(train(optimizer, schedule, 5))
    saved = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
    rest = ' '.join(train(optimizer, schedule, 3))

    optimizer = make_optimizer()
    optimizer.load_state_dict(saved[0])
    schedule = make_schedule(optimizer)
    schedule.load_state_dict(saved[1])
    print(f'{name}: {rest}, made after loading', *train(optimizer, schedule, 3))
EOF
