#!/bin/sh
# Usage: tests/tap.sh TEST      Runs one test file, C or bats, and prints TAP (for prove).
# The TAP is kept in $TAP_DIR (build/tap) for tests/summary.py; its last line holds the seconds, the status and the
# command that repeats the file. A file that has not ended after TEST_TIMEOUT seconds (1800) is ended, and has failed.
set -u
CDPATH='' cd "$(dirname "$0")/.." || exit 1
# Tests that call make inherit MAKEFLAGS. Its variables are kept; -j is removed, since the jobserver is closed here.
MAKEFLAGS=$(printf '%s' "${MAKEFLAGS-}" | sed 's/-j[0-9]*//; s/--jobserver-[a-z]*=[^ ]*//')
export MAKEFLAGS
tap=${TAP_DIR:-build/tap}/$1.tap
mkdir -p "$(dirname "$tap")"
case $1 in
*.c) command=${BUILD:-build}/${1%.c} ;;
*.bats)
    # shellcheck source=tools/parts.sh
    (. tools/parts.sh && recent_bats >/dev/null) || { echo "Bail out! bats is too old or missing: ./setup.sh" && exit 1; }
    case ${SLOW:-} in all) only= ;; only) only='--filter-tags slow' ;; *) only='--filter-tags !slow' ;; esac
    command="bats --tap $only $1"
    ;;
*) echo "Bail out! $1 is neither C nor bats" && exit 1 ;;
esac

# Tests send signals, so perl resets those that nohup and a shell's & leave ignored. timeout starts a process group, to
# end all processes of a test; Ctrl-C does not reach that group, so it is passed on.
start=$(date +%s)
# shellcheck disable=SC2016,SC2086 # perl's variables; bats is several words
CMOCKA_MESSAGE_OUTPUT=TAP perl -e '$SIG{$_} = "DEFAULT" for qw(HUP INT QUIT); exec @ARGV or exit 127' timeout -k 10 "${TEST_TIMEOUT:-1800}" $command >"$tap" 2>"$tap.err" &
trap 'kill $!; exit 130' INT HUP TERM
wait $!
status=$?
sed -i 's/^not ok \([0-9]* # SKIP\)/ok \1/' "$tap" # for cmocka, what is skipped is not ok
once=
[ "${RERUN:-}" != never ] || once=' once'
times >"$tap.times" # of this shell, then of the test: 1m2.3s for the program, and as much for the system
cpu=$(awk -F '[ms ]+' 'END { printf "%.0f", 60 * $1 + $2 + 60 * $3 + $4 }' "$tap.times")
echo "# took $(($(date +%s) - start)) s, status $status$once, $cpu s of processors, again: make ${CHECK:-test} ONLY=$1${SEED:+ SEED=$SEED}" >>"$tap"
cat "$tap"
cat "$tap.err" >&2
exit "$status"
