#!/bin/sh
# Usage: tests/run_tests.sh TEST...      Runs test files, then names those that failed or were skipped, and counts.
# A file that fails is run once more at the end, alone: if it passes then, it is listed as flaky (tests/summary.py).
#   ONLY=FILE     runs this one of them
#   JOBS=3        files at a time: most tests wait for something most of the time
#   RERUN=later   leaves the second run to .ci/run
#   RERUN=never   has no second run: for tests whose inputs are random
set -u
cd "$(dirname "$0")/.." || exit 1
ONLY=${ONLY:-} ONLY=${ONLY#./}
for test in "$@" $ONLY; do [ -f "$test" ] || { echo "$0: there is no test $test" >&2 && exit 2; }; done
if [ -n "$ONLY" ]; then # a check may have two parts, of which one has no such test
    case " $* " in *" $ONLY "*) ;; *) echo "$0: $ONLY is not among these $# tests" && [ "${CHECK:-}" != test ] && exit || exit 2 ;; esac
    set -- "$ONLY"
fi
# Both runs of a file have the same random numbers.
export SEED="${SEED:-$(($(date +%s) % 32768))}"
export TORCH_SEED="${TORCH_SEED:-$SEED}"
folder=${TAP_DIR:-build/tap}
rm -rf "$folder" "$folder.again"
for test in "$@"; do # a file that never runs counts as failed
    mkdir -p "$folder/${test%/*}" && : >"$folder/$test.tap"
done
# Tests run beside each other, so OpenMP's threads sleep while they wait instead of spinning on a core.
export OMP_WAIT_POLICY=passive

prove --timer --jobs "${JOBS:-3}" --exec tests/tap.sh "$@" || case ${RERUN:-} in
later | never) ;;
*) tests/again.sh "$folder" ;;
esac
[ "${RERUN:-}" = later ] || tests/summary.py "$folder"
