#!/bin/sh
# Tool:  xgboost 3.2.0 (xgboost-cpu), collective.allreduce of an array with two dimensions
# Guess: "The result of allreduce, have same shape as data", as its documentation says.
# Seen:  the result is flat. A column divided by its sum becomes a square of other numbers, without a word.
# > 2 x 3: result has shape 6
# > 2 x 1: result has shape 2
# > column / sum, should be 0.5 0.5: 0.5 0.25 1 0.5
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install xgboost-cpu==3.2.0 numpy==2.4.6 scipy==1.17.1

cat >"$tmp/ranks.py" <<'EOF'
import multiprocessing as mp
import numpy as np
from xgboost import collective
from xgboost.tracker import RabitTracker

def run(rank, args):
    with collective.CommunicatorContext(**args, dmlc_task_id=str(rank)):
        lines = []
        for shape in (2, 3), (2, 1):
            total = collective.allreduce(np.ones(shape), collective.Op.SUM)
            lines.append(f"{shape[0]} x {shape[1]}: result has shape {' x '.join(map(str, total.shape))}")
        column = np.array([[1.], [2.]])
        parts = (column / collective.allreduce(column, collective.Op.SUM)).ravel()
        lines.append(f"column / sum, should be 0.5 0.5: {' '.join(f'{part:g}' for part in parts)}")
        if collective.get_rank() == 0:
            print(*lines, sep='\n', flush=True)

tracker = RabitTracker(host_ip='127.0.0.1', n_workers=2)
tracker.start()
ranks = [mp.Process(target=run, args=(rank, tracker.worker_args())) for rank in range(2)]
for rank in ranks:
    rank.start()
for rank in ranks:
    rank.join()
EOF
python "$tmp/ranks.py" 2>"$tmp/errors" | grep -v 'got rank' | verdict
