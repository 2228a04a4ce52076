#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.distributed.checkpoint
# Guess: a float tensor is not loaded into an integer tensor, as one of another shape is not.
# Seen:  it is, and the fractions are gone.
# > saved tensor([1.5000, 2.7500]), loaded tensor([1, 2])
# > shape (1, 2): CheckpointException
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

python - "$tmp/saved" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import torch
import torch.distributed.checkpoint as dcp

saved = torch.tensor([1.5, 2.75])
dcp.save({'weight': saved}, checkpoint_id=sys.argv[1])
state = {'weight': torch.zeros(2, dtype=torch.int64)}
dcp.load(state, checkpoint_id=sys.argv[1])
print(f'saved {saved}, loaded {state["weight"]}')
try:
    dcp.load({'weight': torch.zeros(1, 2)}, checkpoint_id=sys.argv[1])
    print('shape (1, 2): loaded')
except BaseException as error:
    print('shape (1, 2):', type(error).__name__)
EOF
