#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.load, with safetensors 0.8.0
# Guess: torch.load refuses a safetensors file, which is no pickle, whatever its name.
# Seen:  it reads the file if its name ends in .safetensors, and refuses the same bytes under another name.
# > model.safetensors: {'a': tensor([1., 2.])}
# > model.pt: UnpicklingError
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 safetensors==0.8.0 numpy==2.4.6

python - "$tmp" <<'EOF' | verdict
import sys
import torch
from safetensors.torch import save_file

for name in 'model.safetensors', 'model.pt':
    path = f'{sys.argv[1]}/{name}'
    save_file({'a': torch.tensor([1.0, 2.0])}, path)
    try:
        print(f'{name}:', torch.load(path))
    except Exception as error:
        print(f'{name}:', type(error).__name__)
EOF
