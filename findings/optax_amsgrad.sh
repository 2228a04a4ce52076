#!/bin/sh
# Tool:  optax 0.2.8 with JAX 0.10.2, beside PyTorch 2.15.0, AMSGrad
# Guess: with the same gradients, lr, betas and eps, both make the same steps, as they do for Adam.
# Seen:  they part at the second step: optax takes the maximum after the bias correction, PyTorch before it.
# > Adam: 0.9000 0.8129 0.7364, PyTorch the same
# > AMSGrad: 0.9000 0.8351 0.7880, PyTorch 0.9000 0.8129 0.7364
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 optax==0.2.8 jax==0.10.2 jaxlib==0.10.2

python - 2>"$tmp/errors" <<'EOF' | verdict
import jax.numpy as jnp
import optax
import torch

def steps_of_optax(optimizer):
    x = jnp.array(1.0)
    state = optimizer.init(x)
    for gradient in gradients:
        update, state = optimizer.update(jnp.array(gradient), state, x)
        x = optax.apply_updates(x, update)
        yield f'{float(x):.4f}'

def steps_of_torch(**options):
    x = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=0.1, **options)
    for gradient in gradients:
        x.grad = torch.tensor(gradient)
        optimizer.step()
        yield f'{x.item():.4f}'

gradients = 0.3, 0.1, 0.05
for name, optimizer, options in ('Adam', optax.adam, {}), ('AMSGrad', optax.amsgrad, {'amsgrad': True}):
    ours, theirs = ' '.join(steps_of_optax(optimizer(0.1))), ' '.join(steps_of_torch(**options))
    print(f'{name}: {ours}, PyTorch', 'the same' if ours == theirs else theirs)
EOF
