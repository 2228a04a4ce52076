#!/bin/sh
# Tool:  PyTorch 2.15.0, compare_set of TCPStore, FileStore and HashStore
# Guess: on a key that does not exist, and with an expected value, nothing is set and the answer is empty.
# Seen:  nothing is set, but the answer is the expected value, as if the key had held it.
# > TCPStore: answer b'old', key exists: False
# > FileStore: answer b'old', key exists: False
# > HashStore: answer b'old', key exists: False
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

python - "$tmp/store" <<'EOF' | verdict
import sys
import torch.distributed as dist

for store in dist.TCPStore('127.0.0.1', 0, 1, True), dist.FileStore(sys.argv[1], 1), dist.HashStore():
    answer = store.compare_set('lock', 'old', 'new')
    print(f'{type(store).__name__}: answer {answer}, key exists: {store.check(["lock"])}')
EOF
