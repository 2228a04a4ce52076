#!/bin/sh
# Tool:  accelerate 1.15.0 with PyTorch 2.15.0, a learning-rate schedule that was given to prepare()
# Guess: after two steps of a schedule that halves the rate at each, it is a quarter, for any number of processes.
# Seen:  each step() of the schedule counts once per process: two processes have a sixteenth.
# > 1 process: rate 0.25
# > 2 processes: rate 0.0625
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 accelerate==1.15.0 numpy==2.4.6

cat >"$tmp/train.py" <<'EOF'
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(1, 1)
sgd = torch.optim.SGD(model.parameters(), lr=1.0)
schedule = torch.optim.lr_scheduler.StepLR(sgd, 1, gamma=0.5)
model, sgd, schedule = accelerator.prepare(model, sgd, schedule)
for _ in range(2):
    accelerator.backward(model(torch.ones(1, 1)).sum())
    sgd.step()
    schedule.step()
if accelerator.is_main_process:
    print(f'{accelerator.num_processes} process{"es" * (accelerator.num_processes > 1)}: rate {sgd.param_groups[0]["lr"]}')
accelerator.end_training()
EOF
for processes in 1 2; do
    python -m torch.distributed.run --standalone --nproc-per-node $processes "$tmp/train.py" 2>"$tmp/errors"
done | verdict
