#!/bin/sh
# Tool:  torchrun of PyTorch 2.15.0, and SIGUSR1, which Slurm's --signal=USR1@60 sends before a job's time is up
# Guess: torchrun passes it on, as it does SIGTERM, or ignores it.
# Seen:  it ends torchrun at once, with 138 (128 + SIGUSR1); the worker hears nothing and runs on without a launcher.
# > torchrun: exit status 138
# > the worker runs on
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

cat >"$tmp/worker.py" <<'EOF'
import os
import signal
import sys
import time

signal.signal(signal.SIGUSR1, lambda *_: print('the worker takes SIGUSR1', flush=True))
with open(sys.argv[1], 'w') as file:
    print(os.getpid(), file=file)
print('up', flush=True)
time.sleep(60)
EOF
: >"$tmp/out"
python -m torch.distributed.run --standalone --nproc-per-node 1 "$tmp/worker.py" "$tmp/pid" >"$tmp/out" 2>"$tmp/errors" &
launcher=$!
wait_for 1 "$tmp/out"
kill -USR1 $launcher || true
status=0
wait $launcher || status=$?
launcher=
{
    echo "torchrun: exit status $status"
    grep -vx up "$tmp/out" || true
    sleep 1
    kill -TERM "$(cat "$tmp/pid")" && echo "the worker runs on"
} 2>>"$tmp/errors" | verdict
