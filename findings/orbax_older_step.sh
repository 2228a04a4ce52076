#!/bin/sh
# Tool:  orbax-checkpoint 0.12.8 with JAX 0.10.2, CheckpointManager
# Guess: a run that went back to step 10 saves its steps 15 and 20, or save raises an error.
# Seen:  save returns False and writes nothing, until the run has passed the newest step in the folder.
# > save(10): True
# > save(20): True
# > restored 10, save(15): False
# > restored 10, save(20): False
# > restored 10, save(25): True
# > steps [10, 20, 25], step 20 holds the first run's value
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install orbax-checkpoint==0.12.8 jax==0.10.2 jaxlib==0.10.2

python - "$tmp/saved" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import jax.numpy as jnp
import orbax.checkpoint as ocp

def save(manager, step, value):
    done = manager.save(step, args=ocp.args.StandardSave({'x': jnp.array(value)}))
    manager.wait_until_finished()
    return done

with ocp.CheckpointManager(sys.argv[1]) as manager:
    for step in 10, 20:
        print(f'save({step}): {save(manager, step, 1.0)}')
with ocp.CheckpointManager(sys.argv[1]) as manager:
    manager.restore(10)
    for step in 15, 20, 25:
        print(f'restored 10, save({step}): {save(manager, step, 2.0)}')
    first = float(manager.restore(20)['x']) == 1.0
    print(f'steps {manager.all_steps()}, step 20 holds the', 'first' if first else 'second', "run's value")
EOF
