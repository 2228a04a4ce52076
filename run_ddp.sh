#!/bin/sh
# Usage: run_ddp.sh [ranks] [options of train]      Builds step 03 and runs it, on GPUs if there are any.
set -eu
here=$(dirname "$(readlink -f "$0")")
make -s -C "$here" 03
exec "$here/03_torchrun_env/run.sh" "$@"
