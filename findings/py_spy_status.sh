#!/bin/sh
# Tool:  py-spy 0.4.3, beside memray 1.20.0
# Guess: a rank started by a profiler that fails with status 3 gives its launcher 3.
# Seen:  py-spy gives 0, so that mpirun, Slurm or a script take the job for a good one.
# > python: 3
# > memray run: 3
# > py-spy record: 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install py-spy==0.4.3 memray==1.20.0

echo 'import sys, time; time.sleep(2); sys.exit(3)' >"$tmp/rank.py"
# status NAME COMMAND...: the command's status
status() {
    name=$1 status=0
    shift
    "$@" >"$tmp/out" 2>&1 || status=$?
    echo "$name: $status"
}
{
    status python python "$tmp/rank.py"
    status "memray run" memray run -o "$tmp/memory.bin" "$tmp/rank.py"
    status "py-spy record" py-spy record -o "$tmp/time.svg" -- python "$tmp/rank.py"
    [ -s "$tmp/time.svg" ] || cannot "py-spy does not trace here"
} >"$tmp/all"
verdict <"$tmp/all"
