#!/bin/sh
# Tool:  safetensors 0.8.0 with JAX 0.10.2, safetensors.flax.load_file
# Guess: a tensor has the type that the file says, or an error says why not.
# Seen:  64-bit numbers become 32-bit ones without a warning, large integers others; jax_enable_x64 keeps them.
# > int64 1099511627781 is read as int32 5, float64 0.1 as float32 0.10000000149011612, 0 warnings
# > jax.numpy.array(1099511627781): OverflowError
# > with jax_enable_x64: int64 1099511627781, float64 0.1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install safetensors==0.8.0 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6

python - "$tmp/wide.safetensors" 2>"$tmp/errors" <<'EOF' | verdict
import sys, warnings
import jax
import numpy
from safetensors.flax import load_file
from safetensors.numpy import save_file

path = sys.argv[1]
save_file({'step': numpy.array(2**40 + 5), 'lr': numpy.array(0.1)}, path)

def read():
    tensors = load_file(path)
    return [f'{tensors[name].dtype} {tensors[name].item()}' for name in ('step', 'lr')]

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter('always')
    step, lr = read()
print(f'int64 {2**40 + 5} is read as {step}, float64 0.1 as {lr}, {len(caught)} warnings')
try:
    result = jax.numpy.array(2**40 + 5)
except Exception as error:
    result = type(error).__name__
print(f'jax.numpy.array({2**40 + 5}): {result}')
jax.config.update('jax_enable_x64', True)
print('with jax_enable_x64:', ', '.join(read()))
EOF
