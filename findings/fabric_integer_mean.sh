#!/bin/sh
# Tool:  Lightning Fabric 2.6.6 with PyTorch 2.15.0, all_reduce, which averages unless told otherwise
# Guess: the mean of 1 and 2 is 1.5, or integers are refused, as ReduceOp.AVG of Gloo refuses them.
# Seen:  means stay in the type of what was given: 1, True for half of the ranks, and 72 of bytes, whose sum goes over 255.
# > rank 0 and 1 give 1 and 2: 1
# > rank 0 and 1 give tensor(1) and tensor(2): 1
# > rank 0 and 1 give tensor(True) and tensor(False): True
# > rank 0 and 1 give bytes 200 and 201: 72
# > rank 0 and 1 give 1.0 and 2.0: 1.5
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 lightning-fabric==2.6.6 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | grep '^rank' | verdict
import torch
from lightning_fabric import Fabric

def average(fabric):
    def show(names, *values):
        mean = fabric.all_reduce(values[fabric.global_rank])
        if fabric.global_rank == 0:
            print(f'rank 0 and 1 give {names}: {mean.item()}', flush=True)

    show('1 and 2', 1, 2)
    show('tensor(1) and tensor(2)', torch.tensor(1), torch.tensor(2))
    show('tensor(True) and tensor(False)', torch.tensor(True), torch.tensor(False))
    show('bytes 200 and 201', torch.tensor(200, dtype=torch.uint8), torch.tensor(201, dtype=torch.uint8))
    show('1.0 and 2.0', 1.0, 2.0)

Fabric(accelerator='cpu', devices=2, strategy='ddp_fork').launch(average)
EOF
