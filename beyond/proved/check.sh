#!/bin/sh
# Usage: beyond/proved/check.sh [--shortest] MODEL [-DNAME=VALUE ...]      Has Spin try every order of events.
# MODEL is a file of this folder, without .pml. Prints the number of states and what was found; after an error also the
# counter-example, and the status is 1. --shortest looks for the shortest one, which takes longer.
# STATE=' ' also prints the variables at its end, SHOW=-p every statement, not only what the model prints. PAN='-m1000000' and the like are
# options of the checker, CHECKER='-DHC4' of its compiler.
set -eu
shortest=''
[ "${1:-}" != --shortest ] || { shortest=1 && shift; }
folder=$(CDPATH='' cd "$(dirname "$0")" && pwd)
[ -f "$folder/${1:-}.pml" ] || { sed -n '2,/^set/s/^# //p' "$0" >&2 && exit 2; }
model=$1.pml
name="$*"
shift
command -v spin >/dev/null || { echo "check.sh: there is no spin: ./setup.sh --checks installs it" >&2 && exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM
cp "$folder/$model" "$work"
touch -d @0 "$work/$model" # older than its trail, whatever the clock's ticks: spin warns otherwise
cd "$work"
spin -a "$@" "$model" >spin.log || { cat spin.log >&2 && exit 2; }
# shellcheck disable=SC2086 # several words
"${CC:-cc}" -O0 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 ${shortest:+-DREACH} ${CHECKER:-} -o pan pan.c
# shellcheck disable=SC2086
./pan -m100000 ${shortest:+-i} ${PAN:-} >pan.log 2>&1 || true
states=$(sed -n 's/^ *\([0-9]*\)\(\.[0-9e+]*\)* states, stored.*/\1\2/p' pan.log)
wrong=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' pan.log | tail -n 1)
if [ -n "$wrong" ]; then
    echo "$name: $wrong, after $states states"
    # shellcheck disable=SC2086
    spin -t ${SHOW:-} "$@" "$model" | sed "s/[[:space:]]*\$//${STATE:-;/^\t\t/d}"
    exit 1
fi
if ! grep -q 'errors: 0' pan.log || grep -q 'search depth too small\|memory limit\|not completed' pan.log; then
    echo "$name: not all states were visited" >&2
    cat pan.log >&2
    exit 2
fi
echo "$name: $states states, no error"
