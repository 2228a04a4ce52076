#!/bin/sh
# Tool:  perf stat of Linux 6.1 (Debian 12: linux-perf)
# Guess: it ends with the program's status, as timeout does: 137 after SIGKILL.
# Seen:  only if the program exits. If a signal ends it, as after a crash or when memory runs out, the status is 0.
# > exit 3: timeout gives 3, perf stat 3
# > SIGKILL: timeout gives 137, perf stat 0
# > SIGTERM: timeout gives 143, perf stat 0
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
perf --version 2>/dev/null | grep -q '^perf version 6\.1\.' || cannot "another perf"
perf stat -o "$tmp/counts" true 2>/dev/null || cannot "perf stat does not run here"

# status COMMAND...: its exit status
status() {
    status=0
    "$@" >"$tmp/out" 2>"$tmp/errors" || status=$?
    echo "$status"
}
# both NAME TEXT: what the two give for a shell that runs TEXT
both() {
    echo "$1: timeout gives $(status timeout 60 sh -c "$2"), perf stat $(status perf stat -o "$tmp/counts" sh -c "$2")"
}
{
    both "exit 3" "exit 3"
    # shellcheck disable=SC2016 # the shell's own number
    both SIGKILL 'kill -KILL $$'
    # shellcheck disable=SC2016
    both SIGTERM 'kill -TERM $$'
} | verdict
