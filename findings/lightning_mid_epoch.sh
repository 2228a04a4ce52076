#!/bin/sh
# Tool:  PyTorch Lightning 2.6.6 with PyTorch 2.15.0, fit(ckpt_path=...) with a checkpoint from the middle of an epoch
# Guess: the resumed epoch goes on with the batches that are left, or starts again as a whole.
# Seen:  it goes on counting, but reads from the start: the first batches are trained once more, the last ones never.
# > first run, until its checkpoint: batch 0 is [0], batch 1 is [1], batch 2 is [2], batch 3 is [3]
# > resumed, to the end of the epoch: batch 4 is [0], batch 5 is [1]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 pytorch-lightning==2.6.6 numpy==2.4.6

python - "$tmp" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def training_step(self, batch, index):
        self.seen.append(f'batch {index} is {batch.tolist()}')
        return self.w.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def fit(steps, checkpoint=None):
    model = Model()
    save = lightning.callbacks.ModelCheckpoint(sys.argv[1], 'saved', every_n_train_steps=4)
    trainer = lightning.Trainer(
        accelerator='cpu', max_epochs=1, max_steps=steps, callbacks=[save],
        logger=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(list(range(6))), ckpt_path=checkpoint)
    return ', '.join(model.seen)

print('first run, until its checkpoint:', fit(4))
print('resumed, to the end of the epoch:', fit(-1, sys.argv[1] + '/saved.ckpt'))
EOF
