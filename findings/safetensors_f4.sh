#!/bin/sh
# Tool:  safetensors 0.8.0 with PyTorch 2.15.0, tensors of float4_e2m1fn_x2
# Guess: what save_file writes, load_file and load read alike, and the header has the tensor's shape.
# Seen:  load knows no F4, which load_file reads; the header counts nibbles, two for each of the tensor's elements.
# > tensor (2, 4), header [2, 8], load_file (2, 4), load: KeyError 'F4'
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 safetensors==0.8.0 numpy==2.4.6

python - "$tmp/f4.safetensors" <<'EOF' | verdict
import sys
import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, save_file

path = sys.argv[1]
tensor = torch.zeros(2, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
save_file({'a': tensor}, path)
with safe_open(path, 'pt') as file:
    header = file.get_slice('a').get_shape()
try:
    loaded = load(open(path, 'rb').read())['a'].shape
except KeyError as error:
    loaded = f'KeyError {error}'
print(f'tensor {tuple(tensor.shape)}, header {header}, load_file {tuple(load_file(path)["a"].shape)}, load: {loaded}')
EOF
