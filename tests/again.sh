#!/bin/sh
# Usage: tests/again.sh TAP_DIR      Runs each test file that failed in TAP_DIR once more, with nothing beside it.
# What comes out goes to TAP_DIR.again, for tests/summary.py. In build/ci, the first folder of a file's path is
# the target of make that ran it: test, check-slurm, ...
set -u
CDPATH='' cd "$(dirname "$0")/.." || exit 1
case $1 in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac # other folders' makes write there, too
for path in $(tests/summary.py --failed "$folder"); do
    echo "== once more, alone: $path"
    case $path in
    tests/*) TAP_DIR=$folder.again tests/tap.sh "$path" ;;
    *)
        check=${path%%/*}
        TAP_DIR=$folder.alone/$check RERUN=later make -s "$check" ONLY="tests/${path#*/tests/}"
        mkdir -p "$folder.again" && cp -r "$folder.alone/." "$folder.again" && rm -rf "$folder.alone"
        ;;
    esac
done </dev/null
