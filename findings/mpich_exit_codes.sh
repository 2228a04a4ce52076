#!/bin/sh
# Tool:  mpiexec of MPICH 5.0.2 (wheel mpich)
# Guess: mpiexec ends with the exit status of the first rank that fails, 128 + 9 if SIGKILL ended it, and ends the others.
# Seen:  the statuses are joined by a bitwise "or", a signal is its bare number, and others go on after a failed exit.
# > ranks exit with 3 and 5: 7
# > ranks exit with 5 and 0: the other goes on to its end, 5
# > SIGKILL ends rank 0: 9
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install mpich==5.0.2

# ranks COMMAND COMMAND: what they print, and mpiexec's exit status.
ranks() {
    status=0
    mpiexec -n 1 sh -c "$1" : -n 1 sh -c "$2" >"$tmp/out" 2>"$tmp/errors" || status=$?
    echo "$(grep 'the other' "$tmp/out" || true)$status"
}
{
    echo "ranks exit with 3 and 5: $(ranks 'exit 3' 'exit 5')"
    echo "ranks exit with 5 and 0: $(ranks 'exit 5' 'sleep 3; printf "the other goes on to its end, "')"
    # shellcheck disable=SC2016 # the rank's own number
    echo "SIGKILL ends rank 0: $(ranks 'kill -KILL $$' 'sleep 3')"
} | verdict
