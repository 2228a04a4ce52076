#!/bin/sh
# Usage: tests/tap.sh TEST      Runs one test file, C or bats, and prints TAP (for prove).
# A copy of the TAP goes to $TAP_DIR (build/tap), where tests/summary.sh counts.
set -u
cd "$(dirname "$0")/.." || exit 1
tap=${TAP_DIR:-build/tap}/$1.tap
mkdir -p "$(dirname "$tap")"
case $1 in
*.c) CMOCKA_MESSAGE_OUTPUT=TAP "${BUILD:-build}/${1%.c}" >"$tap" ;;
*.bats) bats --tap "$1" >"$tap" ;;
*) echo "Bail out! $1 is neither C nor bats" && exit 1 ;;
esac
status=$?
cat "$tap"
exit $status
