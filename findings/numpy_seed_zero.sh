#!/bin/sh
# Tool:  numpy 2.4.6, default_rng([seed, rank]) or default_rng([seed, epoch, rank])
# Guess: another list, other random numbers: no rank repeats what default_rng(seed) gives.
# Seen:  zeros at the end of a list count for nothing: rank 0 draws what default_rng(seed) has given to the model or to
#        the split of the samples. With the rank first, as in numpy's page about parallel streams, it does not.
# > [7, 0] and 7: the same numbers
# > [7, 3, 0] and [7, 3]: the same numbers
# > [7, 1] and 7: others
# > [0, 7] and 7: others
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import numpy as np

for first, second in ([7, 0], 7), ([7, 3, 0], [7, 3]), ([7, 1], 7), ([0, 7], 7):
    draws = [np.random.default_rng(seed).normal(size=1000) for seed in (first, second)]
    print(f"{first} and {second}: {'the same numbers' if np.array_equal(*draws) else 'others'}")
EOF
