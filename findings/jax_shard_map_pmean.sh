#!/bin/sh
# Tool:  JAX 0.10.2, shard_map, the same training step as for pmap: pmean of the gradient of the device's own loss
# Guess: the mean of the devices' gradients, as with pmap.
# Seen:  their sum: weights that all devices share have their gradients added already, and pmean of equal ones does
#        nothing. The step is as many times too large as there are devices. pmean of the loss, before grad, is right.
# > 2 devices, gradients 1 and 3
# > pmap, pmean of gradients: 2
# > shard_map, pmean of gradients: 4
# > shard_map with check_vma=False, pmean of gradients: 2
# > shard_map, gradient of pmean of losses: 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install 'jax[cpu]==0.10.2' numpy==2.4.6
export JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count=2

python - <<'EOF' 2>"$tmp/errors" | verdict
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

def loss(w, x):
    return (w * x).mean()

def step(w, x):
    return jax.lax.pmean(jax.grad(loss)(w, x), 'data')

def step_of_pmean(w, x):
    return jax.grad(lambda w: jax.lax.pmean(loss(w, x), 'data'))(w)

def shard(step, **options):
    mesh = jax.make_mesh((2,), ('data',), axis_types=(AxisType.Auto,))
    return jax.shard_map(step, mesh=mesh, in_specs=(P(), P('data')), out_specs=P(), **options)(w, x)

w, x = jnp.float32(1), jnp.array([1., 3.])
own = [jax.grad(loss)(w, part) for part in x]
print(f'{jax.device_count()} devices, gradients {own[0]:g} and {own[1]:g}')
print(f"pmap, pmean of gradients: {jax.pmap(step, 'data', in_axes=(None, 0))(w, x)[0]:g}")
print(f'shard_map, pmean of gradients: {shard(step):g}')
print(f'shard_map with check_vma=False, pmean of gradients: {shard(step, check_vma=False):g}')
print(f'shard_map, gradient of pmean of losses: {shard(step_of_pmean):g}')
EOF
