#!/bin/sh
# Tool:  JAX 0.10.2, process_allgather and broadcast_one_to_all of multihost_utils
# Guess: NumPy numbers of 64 bits come back as they are, as they do when tried with one process.
# Seen:  with two processes they are cut to 32 bits, without a word: a count of tokens turns negative, 2^24 + 1 loses its 1.
# > 1 process: gathered [3000000000], broadcast 16777217.0
# > 2 processes: gathered [-1294967296, -1294967296], broadcast 16777216.0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6

cat >"$tmp/process.py" <<'EOF'
import sys
import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all, process_allgather

jax.config.update('jax_platforms', 'cpu')
process, count, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if count > 1:
    jax.distributed.initialize(address, count, process)
tokens = process_allgather(np.int64(3_000_000_000)).tolist()
samples = broadcast_one_to_all(np.float64(2**24 + 1)).item()
if process == 0:
    print(f"{count} process{'es' * (count > 1)}: gathered {tokens}, broadcast {samples}")
EOF
port=$(python -c "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])")
{
    python "$tmp/process.py" 0 1 none
    python "$tmp/process.py" 1 2 "127.0.0.1:$port" >&2 &
    launcher=$!
    python "$tmp/process.py" 0 2 "127.0.0.1:$port"
    wait $launcher && launcher=
} 2>"$tmp/errors" | grep process | verdict
