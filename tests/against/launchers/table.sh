#!/bin/bash
# Usage: tests/against/launchers/table.sh LAUNCHER...      Prints a row for each: mpirun of Open MPI or Hydra's mpiexec, with its path.
# Two ranks take SIGTERM and SIGUSR1 as a request to end with 75; then rank 0 ends with 5, or is killed.
set -u
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
up=$(mktemp) && trap 'rm -f "$up"' EXIT

start() { # COMMAND: of each rank, in the background
    case $launcher in
    *mpiexec) "$launcher" -n 2 sh -c "$1" ;;
    *) "$launcher" --oversubscribe -n 2 sh -c "$1" ;;
    esac >"$up.out" 2>&1 &
}

signalled() { # SIGNAL: the launcher's status
    : >"$up"
    start "trap 'exit 75' TERM USR1; echo up >>$up; sleep 60 & wait"
    for _ in $(seq 1200); do [ "$(wc -l <"$up")" -lt 2 ] || break; sleep 0.05; done
    pkill -"$1" -P $! || kill -"$1" $! # the launcher is the shell's child
    wait $! && echo 0 || echo $?
}

ended() { # COMMAND: the launcher's status after rank 0's
    start "[ \${OMPI_COMM_WORLD_RANK:-\$PMI_RANK} != 0 ] || $1; exec sleep 60"
    wait $! && echo 0 || echo $?
}

printf '%-22s %5s %7s %7s %11s %11s\n' launcher cores SIGTERM SIGUSR1 'rank ends 5' 'rank killed'
for launcher in "$@"; do
    start nproc && wait $!
    cores=$(grep -ox '[0-9]*' "$up.out" | head -n 1)
    name=$(PATH=$(dirname "$launcher"):$PATH "$launcher" --version 2>&1 | grep -o 'Open MPI) [0-9.]*\|Version: *[0-9.]*\|Intel.*Version [0-9.]*' | head -n 1)
    # shellcheck disable=SC2016 # the rank's own number
    printf '%-22s %5s %7s %7s %11s %11s\n' "${launcher##*/} ${name##* }" "$cores" "$(signalled TERM)" "$(signalled USR1)" "$(ended 'exit 5')" \
        "$(ended 'kill -KILL $$')"
done
rm -f "$up.out"
