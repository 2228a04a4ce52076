#!/bin/sh
# Tool:  tensorizer 2.12.1 with PyTorch 2.15.0, load_into_module
# Guess: a parameter of another shape or type, or one that the file lacks, is refused, as load_state_dict refuses shapes.
# Seen:  shape and type become those of the file, a parameter that it lacks stays at random, all without a word.
# > module's w is 3 x 3: now 2 x 2, torch.float32
# > module's w is float16: now 2 x 2, torch.float32
# > module has v besides: 1 tensor loaded
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 tensorizer==2.12.1 numpy==2.4.6

python - "$tmp/saved.tensors" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import torch
from tensorizer import TensorDeserializer, TensorSerializer

class Module(torch.nn.Module):
    def __init__(self, size=2, dtype=torch.float32, others=()):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(size, size, dtype=dtype))
        for name in others:
            self.register_parameter(name, torch.nn.Parameter(torch.rand(2)))

def load(module):
    with TensorDeserializer(sys.argv[1], device='cpu') as saved:
        count = saved.load_into_module(module)
    return count, f"{' x '.join(map(str, module.w.shape))}, {module.w.dtype}"

writer = TensorSerializer(sys.argv[1])
writer.write_module(Module())
writer.close()
print("module's w is 3 x 3: now", load(Module(size=3))[1])
print("module's w is float16: now", load(Module(dtype=torch.float16))[1])
print('module has v besides:', load(Module(others='v'))[0], 'tensor loaded')
EOF
