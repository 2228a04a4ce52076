#!/bin/sh
# Usage: tests/again.sh TAP_DIR      Runs each test file that failed in TAP_DIR once more, with nothing beside it.
# What comes out goes to TAP_DIR.again, for tests/summary.py. In build/ci, the first folder of a file's path is
# the target of make that ran it: test, check-slurm, ...
set -u
cd "$(dirname "$0")/.." || exit 1
for path in $(tests/summary.py --failed "$1"); do
    echo "== once more, alone: $path"
    case $path in
    tests/*) TAP_DIR=$1.again tests/tap.sh "$path" ;;
    *) TAP_DIR=$1.again/${path%%/*} RERUN=later make -s "${path%%/*}" ONLY="tests/${path#*/tests/}" ;;
    esac
done </dev/null
