#!/bin/sh
# Tool:  ptflops 0.7.5 with PyTorch 2.15.0, get_model_complexity_info
# Guess: counting a model's operations leaves the model as it was.
# Seen:  it is left in eval mode: a training that counts first goes on without dropout, and batch norm learns nothing.
# > before: training True, dropout sets some of 1000 numbers to 0
# > after: training False, dropout sets none of 1000 numbers to 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 ptflops==0.7.5 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from ptflops import get_model_complexity_info

def show(name, model):
    kept = model(torch.ones(1, 1000)).count_nonzero() == 1000
    print(f"{name}: training {model.training}, dropout sets {'none' if kept else 'some'} of 1000 numbers to 0")

model = torch.nn.Sequential(torch.nn.Dropout())
show('before', model)
get_model_complexity_info(model, (1000,), print_per_layer_stat=False, verbose=False)
show('after', model)
EOF
