#!/bin/sh
# Tool:  transformers 5.24.0 with PyTorch 2.15.0, Trainer resumed in mid-epoch with larger steps (or on more GPUs)
# Guess: gradient_accumulation_steps=2 instead of 1: the run goes on with the samples that are left, in half as many steps.
# Seen:  its place is the number of steps done: 3 of the new ones are the whole epoch, so half of the samples are skipped.
# > 12 samples, saved after 3 steps of 2: 0 1 2 6 7 8
# > resumed, accumulating 1: epoch 1 goes on with 3 4 5 9 10 11, epoch 2 has 12 samples
# > resumed, accumulating 2: epoch 1 goes on with none, epoch 2 has 12 samples
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 transformers==5.24.0 accelerate==1.15.0 numpy==2.4.6

python - "$tmp" 2>"$tmp/errors" <<'EOF' | grep -v train_runtime | verdict
import sys
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def forward(self, x, labels=None):
        self.seen += x.int().flatten().tolist()
        return {'loss': (self.w - x).square().mean()}

def seen(folder, checkpoint=None, accumulate=1):
    model = Model()
    arguments = TrainingArguments(
        f'{sys.argv[1]}/{folder}', num_train_epochs=2, per_device_train_batch_size=2,
        gradient_accumulation_steps=accumulate, save_steps=3, report_to=[], use_cpu=True, disable_tqdm=True,
    )
    data = [{'x': torch.tensor([float(i)]), 'labels': 0} for i in range(12)]
    Trainer(model, arguments, train_dataset=data).train(resume_from_checkpoint=checkpoint)
    return model.seen

def names(samples):
    return ' '.join(map(str, sorted(samples))) or 'none'

first = seen('first')
print('12 samples, saved after 3 steps of 2:', names(first[:6]))
for accumulate in 1, 2:
    rest = seen('resumed', f'{sys.argv[1]}/first/checkpoint-3', accumulate)
    print(f'resumed, accumulating {accumulate}: epoch 1 goes on with {names(rest[:-12])}', end=', ')
    print(f'epoch 2 has {len(set(rest[-12:]))} samples')
EOF
