#!/bin/sh
# Tool:  torchrun of PyTorch 2.15.0
# Guess: after a restart the ranks find an empty store, as a comment in its rendezvous.py promises, and two Gloo ranks start again
#        each time.
# Seen:  the keys of the attempt that failed are still there, Gloo's among them. So at one of the first restarts a rank connects
#        to the address of a process that has ended, and the job fails.
# > attempt 1: the key of attempt 0 is there
# > a restart failed: Gloo connectFullMesh failed
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

cat >"$tmp/worker.py" <<'EOF'
import datetime
import os

import torch
import torch.distributed as dist

attempt, rank = os.environ['TORCHELASTIC_RESTART_COUNT'], os.environ['RANK']
store = dist.TCPStore(os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']), is_master=False)
if attempt == '1' and rank == '0':
    print('attempt 1: the key of attempt 0 is', 'there' if store.check(['mine']) else 'gone', flush=True)
dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=30))
store.set('mine', '')
if attempt == '0' and rank == '1':
    os._exit(3)
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
EOF
status=0
for _ in 1 2 3 4 5 6 7 8 9 10; do
    python -m torch.distributed.run --standalone --monitor-interval 0.1 --nproc-per-node 2 --max-restarts 1 \
        "$tmp/worker.py" >"$tmp/out" 2>"$tmp/errors" || status=$?
    [ $status -eq 0 ] || break
done
{
    cat "$tmp/out"
    [ $status -eq 0 ] || echo "a restart failed: $(grep -om 1 'Gloo connectFullMesh failed' "$tmp/errors")"
} | verdict
