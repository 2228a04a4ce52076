#!/bin/sh
# Tool:  JAX 0.10.2 (key) and tinygrad 0.14.0 (Tensor.manual_seed) with a seed of more than 32 bits, which both take
# Guess: all of the seed counts, or it is refused, as by fold_in: seed + (rank << 32) gives each rank its own numbers.
# Seen:  only the lower 32 bits count: all ranks draw the same. With JAX_ENABLE_X64=1, JAX uses all 64.
# > JAX: rank 1 as rank 0, seed 8 others
# > JAX with 64 bits: rank 1 others, seed 8 others
# > tinygrad: rank 1 as rank 0, seed 8 others
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install jax==0.10.2 jaxlib==0.10.2 tinygrad==0.14.0 numpy==2.4.6

cat >"$tmp/draw.py" <<'EOF'
import sys

def jax_draws(seed):
    import jax
    return jax.random.normal(jax.random.key(seed), 100)

def tinygrad_draws(seed):
    from tinygrad import Tensor
    Tensor.manual_seed(seed)
    return Tensor.randn(100).numpy()

draws = jax_draws if sys.argv[1].startswith('JAX') else tinygrad_draws
said = {seed: 'as rank 0' if (draws(seed) == draws(7)).all() else 'others' for seed in (7 + (1 << 32), 8)}
print(f'{sys.argv[1]}: rank 1 {said[7 + (1 << 32)]}, seed 8 {said[8]}')
EOF
export JAX_PLATFORMS=cpu DEV=CPU XDG_CACHE_HOME="$tmp/cache"
{
    python "$tmp/draw.py" JAX
    JAX_ENABLE_X64=1 python "$tmp/draw.py" 'JAX with 64 bits'
    python "$tmp/draw.py" tinygrad
} 2>"$tmp/errors" | verdict
