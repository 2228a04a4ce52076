#!/bin/sh
# Usage: teach/room_check.sh      (make room-check: is this machine ready for the workshop?)
# Builds everything, runs each step for 11 steps, and compares the losses. Its last line, to be read aloud, is
# "ready: ..." or "not ready: WHAT: WHAT TO DO".
#   PORTS="30555 30556"   the ports to look at, instead of those that are typed in the chapters and the plan
#   TMPDIR=DIR            where the runs write
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
. tools/parts.sh
cores=$(nproc)

# On a terminal, shows what is being done; the next line replaces it.
doing() {
    [ ! -t 2 ] || printf '\r\033[K%s ...' "$*" >&2
}

finish() { # STATUS LINE
    [ ! -t 2 ] || printf '\r\033[K' >&2
    echo "$2"
    exit "$1"
}

not_ready() {
    finish 1 "not ready: $*"
}

# The parts that the workshop uses: all that the build needs, and a few others.
doing packages
while IFS='|' read -r kind name probe without _; do
    case $kind:$name in required:* | tests:python3 | tests:jq | tests:gnuplot | tests:pgrep) ;; *) continue ;; esac
    $probe >/dev/null || not_ready "$name is missing ($without): type ./setup.sh"
done <<END
$(parts)
END

work=$(mktemp -d 2>/dev/null) || not_ready "no folder can be made in ${TMPDIR:-/tmp}: make room there, or set TMPDIR to another folder"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
for folder in . "$work"; do # a build takes 150 MB, the runs 60
    [ -w "$folder" ] || not_ready "$(CDPATH='' cd "$folder" && pwd) cannot be written to: work in a copy of your own"
    free=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "$free" -ge 300 ] || not_ready "$(CDPATH='' cd "$folder" && pwd) has $free MB left, and 300 are needed: make room there"
done

doing ports
# shellcheck disable=SC2046,SC2086 # several numbers
python3 - ${PORTS:-$(grep -oh '295[0-9][0-9]' docs/0[1-5]*.md teach/plan.md | sort -u)} >"$work/port" 2>&1 <<'END' ||
import socket, sys
for port in map(int, sys.argv[1:]):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            sys.exit(f"port {port}: {error.strerror}")
END
    not_ready "$(tail -n 1 "$work/port"): end what uses it ('ss -ltnp' names it), or choose another: PORTS=30555 make room-check"

doing "building, for some minutes the first time"
make -s -j "$cores" all >"$work/make" 2>&1 ||
    not_ready "the build failed, $({ grep -m 1 'error:\|\*\*\*' "$work/make" || tail -n 1 "$work/make"; }): show this line to the instructor"

# try STEP COMMAND...: with 64 rows in each step, all five have the same loss at row 640.
first=''
try() {
    step=$1
    shift
    doing "step $step"
    timeout 120 "$@" --max-steps 11 --checkpoint-dir "$work/$step" >"$work/log" 2>&1 || case $? in
    124) not_ready "step $step is not done after 120 s: end what else uses the cores ('top' shows it)" ;;
    *) not_ready "step $step failed, $(grep -m 1 'fatal: ' "$work/log" || tail -n 1 "$work/log"): show this line to the instructor" ;;
    esac
    loss=$(sed -n 's/^Train Epoch: 0 \[640\/1437\] Loss: //p' "$work/log")
    [ -n "$loss" ] || not_ready "step $step does not train on the digits: is config.yaml as it came? 'git diff config.yaml'"
    first=${first:-$loss}
    awk -v a="$first" -v b="$loss" 'BEGIN { exit !((a - b) ^ 2 < (1e-3 * a) ^ 2) }' ||
        not_ready "step $step has the loss $loss and step 01 $first: type make clean, then make room-check"
}
try 01 01_single_gpu/run.sh --batch-size 64
try 02 02_multi_gpu_spawn/run.sh 2 --global-batch-size 64
try 03 03_torchrun_env/run.sh 2 --global-batch-size 64
try 04 04_slurm_multinode/nodes_here.sh 2 1 04_slurm_multinode/train --global-batch-size 64
try 05 env MAX_RESTARTS=0 05_fault_tolerance/run.sh 2 --global-batch-size 64

doing gnuplot
gnuplot -e "set terminal pngcairo; set output '$work/plot.png'; plot x" >"$work/log" 2>&1 ||
    not_ready "gnuplot draws no PNG, $(tail -n 1 "$work/log"): install one with cairo (gnuplot-nox)"

count() { # NUMBER NAME
    case ${1:-0} in 0) echo "no $2" ;; 1) echo "1 $2" ;; *) echo "$1 $2s" ;; esac
}
finish 0 "ready: 5 of 5 steps, 2 ranks, $(count "$cores" core), $(count "$(gpus || :)" GPU)"
