#!/bin/sh
# Tool:  parsl 2026.10.26, python_app(cache=True), with checkpoints
# Guess: an app whose code has changed runs again, as one paragraph of parsl's page says and the next does not; two
#        apps made in a loop are two.
# Seen:  an app counts as known by its name, module and arguments alone. So a corrected function gives the old
#        function's result in the next run, and with the rate in a closure, all rates give the first's result.
# > rates 1, 2, 3, given to the app: [10, 20, 30]
# > rates 1, 2, 3, each in an app of its own: [10, 10, 10]
# > once more, after * became + in the code:
# > rates 1, 2, 3, given to the app: [10, 20, 30]
# > rates 1, 2, 3, each in an app of its own: [10, 10, 10]
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install parsl==2026.10.26

cat >"$tmp/rates.py" <<'EOF'
import sys
import parsl
from parsl.dataflow.memoization import BasicMemoizer

@parsl.python_app(cache=True)
def train(steps, rate):
    return steps * rate

def app(rate):
    @parsl.python_app(cache=True)
    def train_at_rate(steps):
        return steps * rate

    return train_at_rate

with parsl.load(parsl.Config([parsl.ThreadPoolExecutor()], run_dir=sys.argv[1], initialize_logging=False,
                             memoizer=BasicMemoizer(checkpoint_mode='task_exit'))):
    rates = 1, 2, 3
    print('rates 1, 2, 3, given to the app:', [train(10, rate).result() for rate in rates])
    print('rates 1, 2, 3, each in an app of its own:', [app(rate)(10).result() for rate in rates])
EOF
{
    python "$tmp/rates.py" "$tmp/runs"
    echo 'once more, after * became + in the code:'
    sed 's/steps \*/steps +/' "$tmp/rates.py" >"$tmp/corrected.py" && mv "$tmp/corrected.py" "$tmp/rates.py"
    python "$tmp/rates.py" "$tmp/runs"
} 2>"$tmp/errors" | verdict
