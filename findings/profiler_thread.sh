#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.profiler, work in a thread of one's own, as for loading or for one model each
# Guess: all of the process, as for the threads of the backward pass.
# Seen:  only the thread that started the profiler, and the backward pass.
# > main thread: mm 1
# > another thread: mm 0
# > ThreadPoolExecutor: mm 0
# > backward pass: mm 2
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import threading
from concurrent.futures import ThreadPoolExecutor
import torch
from torch.profiler import ProfilerActivity, profile

a, b = (torch.ones(4, 4, requires_grad=True) for _ in range(2))

def work():
    return torch.mm(a, b)

def in_thread():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

def in_pool():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()

loss = work().sum()
for name, run in (('main thread', work), ('another thread', in_thread), ('ThreadPoolExecutor', in_pool),
                  ('backward pass', loss.backward)):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    print(f'{name}: mm', sum(event.count for event in profiler.key_averages() if event.key == 'aten::mm'))
EOF
