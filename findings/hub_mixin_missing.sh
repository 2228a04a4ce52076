#!/bin/sh
# Tool:  huggingface_hub 2.4.0 with PyTorch 2.15.0, PyTorchModelHubMixin.from_pretrained
# Guess: as load_state_dict: a file without one of the model's tensors is an error, or at least a warning.
# Seen:  it is loaded without a word, and the missing tensor keeps its random numbers; strict=True refuses.
# > tensor missing: loaded, weights the saved ones: False, 0 warnings
# > tensor under another name: loaded, weights the saved ones: False, 0 warnings
# > strict=True: RuntimeError
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 huggingface_hub==2.4.0 safetensors==0.8.0 numpy==2.4.6

python - "$tmp/model" 2>"$tmp/errors" <<'EOF' | verdict
import contextlib, io, sys, warnings
import torch
from huggingface_hub import PyTorchModelHubMixin
from safetensors.torch import load_file, save_file

class Net(torch.nn.Module, PyTorchModelHubMixin):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

folder = sys.argv[1]
Net().save_pretrained(folder)
path = folder + '/model.safetensors'
tensors = load_file(path)
weight = tensors.pop('layer.weight')
for what, more in ('tensor missing', {}), ('tensor under another name', {'layers.weight': weight}):
    save_file({**tensors, **more}, path)
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter('always')
        net = Net.from_pretrained(folder)
    print(f'{what}: loaded, weights the saved ones: {torch.equal(net.layer.weight, weight)}, {len(caught)} warnings')
try:
    with contextlib.redirect_stdout(io.StringIO()):
        Net.from_pretrained(folder, strict=True)
except Exception as error:
    print('strict=True:', type(error).__name__)
EOF
