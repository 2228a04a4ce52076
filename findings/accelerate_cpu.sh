#!/bin/sh
# Tool:  accelerate 1.15.0 with PyTorch 2.15.0
# Guess: accelerate launch --cpu --num_processes 2 starts two processes, as torchrun --nproc-per-node 2 does.
# Seen:  it starts one, without RANK and WORLD_SIZE, and says nothing about the other.
# > process: RANK None, WORLD_SIZE None
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 accelerate==1.15.0
unset PYTHONWARNINGS # so that no warning of accelerate is hidden

cat >"$tmp/show.py" <<'EOF'
import os
print(f'process: RANK {os.environ.get("RANK")}, WORLD_SIZE {os.environ.get("WORLD_SIZE")}', flush=True)
EOF
python -m accelerate.commands.launch --cpu --num_processes 2 --num_machines 1 --mixed_precision no --dynamo_backend no \
    "$tmp/show.py" 2>&1 | verdict
