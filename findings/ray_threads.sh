#!/bin/sh
# Tool:  ray 2.60.0, on a machine that it is told has two cores
# Guess: a program that a task starts may use every core that the task may: ray binds neither to some of them.
# Seen:  OMP_NUM_THREADS is the task's num_cpus, and 1 where none is named or a part of a core.
# > num_cpus not named: OMP_NUM_THREADS 1
# > num_cpus 0.5: OMP_NUM_THREADS 1
# > num_cpus 2: OMP_NUM_THREADS 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install ray==2.60.0
unset OMP_NUM_THREADS
export RAY_USAGE_STATS_ENABLED=0

cat >"$tmp/show.py" <<'EOP'
import subprocess

import ray


def threads():
    return subprocess.run(['printenv', 'OMP_NUM_THREADS'], capture_output=True, text=True).stdout.strip() or 'not set'


ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
for count in None, 0.5, 2:
    task = ray.remote(threads) if count is None else ray.remote(num_cpus=count)(threads)
    print(f'num_cpus {"not named" if count is None else count}: OMP_NUM_THREADS {ray.get(task.remote())}')
EOP
python "$tmp/show.py" 2>"$tmp/errors" | verdict
