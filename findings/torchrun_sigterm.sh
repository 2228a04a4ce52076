#!/bin/sh
# Tool:  torchrun of PyTorch 2.15.0
# Guess: after SIGTERM, and workers that take it and exit with 0, torchrun ends with 0 or with 143 (128 + SIGTERM).
# Seen:  it passes SIGTERM on, waits, and ends with 1 and a Python traceback: as after a worker's failure.
# > a worker ends with 0 after SIGTERM
# > a worker ends with 0 after SIGTERM
# > torchrun: exit status 1, SignalException
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

cat >"$tmp/worker.py" <<'EOF'
import signal
import sys
import time

def end(*_):
    print('a worker ends with 0 after SIGTERM', flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
print('up', flush=True)
time.sleep(100)
EOF
: >"$tmp/out"
python -m torch.distributed.run --standalone --nproc-per-node 2 "$tmp/worker.py" >"$tmp/out" 2>"$tmp/errors" &
launcher=$!
wait_for 2 "$tmp/out"
kill -TERM $launcher || true
status=0
wait $launcher || status=$?
launcher=
{
    grep -vx up "$tmp/out" || true
    echo "torchrun: exit status $status, $(grep -o 'SignalException' "$tmp/errors" | tail -n 1)"
} | verdict
