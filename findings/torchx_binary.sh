#!/bin/sh
# Tool:  torchx 0.7.0 with PyTorch 2.15.0: torchx run dist.ddp --script FILE, "script or binary to run" by its --help
# Guess: a compiled program runs as a rank.
# Seen:  torchrun is called without --no-python, and Python takes the program for a source. Status 1, whatever a rank's is.
# > help: script or binary to run
# > a program: does not run, status 1
# > a script whose rank ends with 5: status 1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 torchx==0.7.0

# run FILE ARGUMENT: torchx's exit status.
run() {
    status=0
    (cd "$tmp" && torchx run -s local_cwd dist.ddp -j 1x1 --script "$1" -- "$2") >"$tmp/out" 2>"$tmp/errors" || status=$?
    echo "status $status"
}
cp "$(command -v touch)" "$tmp/program"
echo 'raise SystemExit(5)' >"$tmp/five.py"
{
    torchx run -s local_cwd dist.ddp --help | grep -o 'script or binary to run' | sed 's/^/help: /'
    status=$(run program "$tmp/ran")
    [ -e "$tmp/ran" ] && echo "a program: runs, $status" || echo "a program: does not run, $status"
    echo "a script whose rank ends with 5: $(run five.py x)"
} | verdict
