#!/bin/sh
# Usage: tests/tap.sh TEST      Runs one test file, C or bats, and prints TAP (for prove).
# A copy of the TAP goes to $TAP_DIR (build/tap), where tests/summary.sh counts.
set -u
cd "$(dirname "$0")/.." || exit 1
# The variables of a make above stay; its -j does not: tests that call make would hear of its missing jobserver.
MAKEFLAGS=$(printf '%s' "${MAKEFLAGS-}" | sed 's/-j[0-9]*//; s/--jobserver-[a-z]*=[^ ]*//')
export MAKEFLAGS
tap=${TAP_DIR:-build/tap}/$1.tap
mkdir -p "$(dirname "$tap")"
case $1 in
*.c)
    CMOCKA_MESSAGE_OUTPUT=TAP "${BUILD:-build}/${1%.c}" >"$tap"
    status=$?
    sed -i 's/^not ok \([0-9]* # SKIP\)/ok \1/' "$tap" # for cmocka, what is skipped is not ok
    ;;
*.bats)
    # shellcheck source=tools/parts.sh
    (. tools/parts.sh && recent_bats >/dev/null) || { echo "Bail out! bats is too old or missing: ./setup.sh" && exit 1; }
    bats --tap "$1" >"$tap"
    status=$?
    ;;
*) echo "Bail out! $1 is neither C nor bats" && exit 1 ;;
esac
cat "$tap"
exit "$status"
