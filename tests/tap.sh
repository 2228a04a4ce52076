#!/bin/sh
# Usage: tests/tap.sh TEST      Runs one test file, C or bats, and prints TAP (for prove).
set -eu
cd "$(dirname "$0")/.."
case $1 in
*.c)
    program=${BUILD:-build}/${1%.c}
    CMOCKA_MESSAGE_OUTPUT=TAP exec "$program"
    ;;
*.bats) exec bats --tap "$1" ;;
*) echo "Bail out! $1 is neither C nor bats" && exit 1 ;;
esac
