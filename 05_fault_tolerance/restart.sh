#!/bin/sh
# Usage: [MAX_RESTARTS=n] 05_fault_tolerance/restart.sh COMMAND [arguments]
# For launchers that do not restart, mpirun and srun: starts the command again when it fails, up to n times
# (3, if not set). Status 0 (done), 2 (wrong command line) and 75 (stopped on request) are not failures. A
# request to end goes to the command as SIGUSR1, which such launchers pass on to the ranks; a second Ctrl-C as SIGTERM.
set -eu
restart=0 child='' asked=''
trap '[ -z "$child" ] || kill -USR1 "$child" 2>/dev/null || :; asked=TERM' TERM HUP USR1 USR2
trap '[ -z "$child" ] || kill -${asked:-USR1} "$child" 2>/dev/null || :; asked=TERM' INT
# A terminal's Ctrl-C reaches a whole process group; Open MPI's mpirun gives the ranks no time to save after it.
[ ! -t 0 ] || ! command -v setsid >/dev/null || set -- setsid "$@"
while :; do
    TORCHELASTIC_RESTART_COUNT=$restart "$@" &
    child=$! status=0
    [ -z "$asked" ] || kill -USR1 $child 2>/dev/null || : # the signal came before child was set
    wait $child || status=$?
    while kill -0 $child 2>/dev/null; do # a signal ends the wait, but not the child at once
        status=0
        wait $child || status=$?
    done
    case $status in 0 | 2 | 75) exit $status ;; esac
    [ -z "$asked" ] && [ $restart -lt "${MAX_RESTARTS:-3}" ] || exit $status
    restart=$((restart + 1))
    echo "$0: status $status: restart $restart of ${MAX_RESTARTS:-3}" >&2
done
