#!/bin/sh
# Tool:  PyTorch 2.15.0, AveragedModel with get_ema_multi_avg_fn(0.999), of a model in bfloat16
# Guess: after 5,000 steps the average has reached the weights, as it does in 32 bits.
# Seen:  a thousandth of the difference is too little to change a bfloat16: the average stays where it began, without
#        a word, and so does what is validated or saved from it.
# > torch.float32: weight 1 at first, then 1.5; average after 2500 and 5000 steps [1.46, 1.5]
# > torch.bfloat16: weight 1 at first, then 1.5; average after 2500 and 5000 steps [1.0, 1.0]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

for dtype in torch.float32, torch.bfloat16:
    model = torch.nn.Linear(1, 1, bias=False, dtype=dtype)
    torch.nn.init.ones_(model.weight)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    average.update_parameters(model)
    torch.nn.init.constant_(model.weight, 1.5)
    seen = []
    for _ in range(2):
        for _ in range(2500):
            average.update_parameters(model)
        seen.append(round(average.module.weight.item(), 2))
    print(f'{dtype}: weight 1 at first, then {model.weight.item()}; average after 2500 and 5000 steps {seen}')
EOF
