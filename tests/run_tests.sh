#!/bin/sh
# Usage: tests/run_tests.sh TEST...      Runs test files, then names what was skipped or failed and counts. JOBS
# (2) are how many at a time: most tests wait for something most of the time. TRIES=2 (1) runs what failed once
# more, alone, and still names it: some tests measure time, on cores that others may fill. (make test JOBS=1
# TRIES=2 hands both on.)
set -u
cd "$(dirname "$0")/.." || exit 1
for test in "$@"; do [ -f "$test" ] || { echo "$0: there is no test $test" >&2 && exit 2; }; done
folder=${TAP_DIR:-build/tap}
mkdir -p "$folder"
rm -f "$folder/.prove" "$folder/failed_at_first" # of a run before
# Tests run beside each other: OpenMP's threads must sleep while they wait, not spin on cores that others want.
export OMP_WAIT_POLICY=passive
run() {
    prove --timer --statefile="$folder/.prove" --exec tests/tap.sh "$@"
}

run --state=save --jobs "${JOBS:-2}" "$@"
status=$?
# Which have failed is not known if prove itself has been killed: then its status stays.
if [ $status -ne 0 ] && [ "${TRIES:-1}" -gt 1 ] && [ -n "$(run --dry --state=failed)" ]; then
    tests/summary.sh "$folder" | sed '/^skipped: /d; $d; s/^failed: /failed at first: /' >"$folder/failed_at_first"
    echo "== once more, alone"
    run --state=failed,save
    status=$?
fi
tests/summary.sh "$folder" && exit $status
