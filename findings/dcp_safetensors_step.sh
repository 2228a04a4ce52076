#!/bin/sh
# Tool:  PyTorch 2.15.0, HuggingFaceStorageWriter of torch.distributed.checkpoint, with safetensors 0.8.0
# Guess: a state with a step number beside its tensors is refused, or the number goes into the file's metadata.
# Seen:  the save succeeds and its index lists the number as a tensor, but the file is none of safetensors: not even
#        the tensors can be read.
# > saved: model-00001-of-00001.safetensors model.safetensors.index.json
# > index: ['step', 'weight']
# > read: SafetensorError Error while deserializing header: header too large
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 safetensors==0.8.0 numpy==2.4.6

python - "$tmp/saved" 2>"$tmp/errors" <<'EOF' | verdict
import json
import os
import sys
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file

folder = sys.argv[1]
dcp.save({'weight': torch.ones(2), 'step': 3}, storage_writer=dcp.HuggingFaceStorageWriter(folder))
names = sorted(os.listdir(folder))
print('saved:', *names)
print('index:', sorted(json.load(open(f'{folder}/{names[1]}'))['weight_map']))
try:
    print('read:', load_file(f'{folder}/{names[0]}'))
except Exception as error:
    print(f'read: {type(error).__name__} {error}')
EOF
