#!/bin/sh
# Usage: tests/run_tests.sh TEST...      Runs test files, then names what was skipped or failed, and counts.
# A file that fails is run once more at the end, alone: if it passes then, it is named as flaky (tests/summary.py).
#   ONLY=FILE     runs this one of them
#   JOBS=3        files at a time: most tests wait for something most of the time
#   RERUN=later   leaves running again to .ci/run; RERUN=never: a failure counts, since other inputs come next time
set -u
cd "$(dirname "$0")/.." || exit 1
for test in "$@" ${ONLY:-}; do [ -f "$test" ] || { echo "$0: there is no test $test" >&2 && exit 2; }; done
if [ -n "${ONLY:-}" ]; then
    case " $* " in *" $ONLY "*) ;; *) echo "$0: $ONLY is not among these $# tests" && exit ;; esac
    set -- "$ONLY"
fi
folder=${TAP_DIR:-build/tap}
rm -rf "$folder" "$folder.again"
for test in "$@"; do # one that is never run has failed
    mkdir -p "$folder/${test%/*}" && : >"$folder/$test.tap"
done
# Tests run beside each other: OpenMP's threads must sleep while they wait, not spin on cores that others want.
export OMP_WAIT_POLICY=passive

prove --timer --jobs "${JOBS:-3}" --exec tests/tap.sh "$@" || case ${RERUN:-} in
later | never) ;;
*) tests/again.sh "$folder" ;;
esac
[ "${RERUN:-}" = later ] || tests/summary.py "$folder"
