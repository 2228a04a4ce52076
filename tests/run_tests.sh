#!/bin/sh
# Usage: tests/run_tests.sh TEST...      Runs test files, then names those that failed or were skipped, and counts.
# A file that fails is run once more at the end, alone: if it passes then, it is listed as flaky (tests/summary.py).
#   ONLY=NAME     runs this one of them: a path, or a name without its folder
#   SLOW=only     runs the tests that are tagged as slow, SLOW=all all tests; otherwise those are left out
#   JOBS=5        files at a time: most tests wait for something most of the time
#   RERUN=later   leaves the second run to .ci/run
#   RERUN=never   has no second run: for tests whose inputs are random
set -u
CDPATH='' cd "$(dirname "$0")/.." || exit 1
fail() {
    echo "$0: $1" >&2
    exit 2
}

for test in "$@"; do
    shift
    [ -f "$test" ] || fail "there is no test $test"
    case ${SLOW:-} in
    all) ;;
    only) grep -qs '^# bats .*tags=slow' "$test" || continue ;;
    *) ! grep -qs '^# bats file_tags=slow' "$test" || continue ;;
    esac
    set -- "$@" "$test"
done
if [ -n "${ONLY:-}" ]; then
    name=$(basename "$ONLY")
    found=$(printf '%s\n' "$@" | grep -xE ".*/(test_)?${name%.*}\.(c|bats)" | grep -F "${ONLY#./}" || :)
    if [ -z "$found" ]; then # a check may have two parts, of which one has no such test
        [ "${CHECK:-test}" = test ] || { echo "no test: $ONLY is not among these $#" && exit; }
        near=$(printf '%s\n' "$@" | python3 -c 'import difflib, os, sys
paths = {os.path.splitext(os.path.basename(line.strip()))[0].removeprefix("test_"): line.strip() for line in sys.stdin}
print(*[paths[name] for name in difflib.get_close_matches(sys.argv[1], paths, 3, 0.5)], sep=", ")' "$(echo "${name%.*}" | sed 's/^test_//')")
        fail "there is no test $ONLY${near:+; near it: $near}"
    fi
    # shellcheck disable=SC2086 # a line each, in the order of the tests
    set -- $found
fi
[ $# -gt 0 ] || { echo 'no test: none of this check is in this sample' && exit; }
# Both runs of a file have the same random numbers.
export SEED="${SEED:-$(($(date +%s) % 32768))}"
export TORCH_SEED="${TORCH_SEED:-$SEED}"
folder=${TAP_DIR:-build/tap}
rm -rf "$folder" "$folder.again"
for test in "$@"; do # a file that never runs counts as failed
    mkdir -p "$folder/${test%/*}" && : >"$folder/$test.tap"
done
# Where python3 is a script that looks for Python, as pyenv's is, tests start what it finds, with the same packages but without
# what these run at each start (in .pth files): in a fifth of the time. The folder is closed to other users, who may not reach
# that Python.
if [ "$(head -c 2 "$(command -v python3 || echo /dev/null)")" = '#!' ]; then
    mkdir -p "$folder/python/bin" && chmod 700 "$folder/python"
    bin=$(python3 -c 'import os, sys
os.chdir(sys.argv[1])
python, packages = os.path.realpath(sys.executable), "lib/python%d.%d/site-packages" % sys.version_info[:2]
os.symlink(python, "bin/python3")
os.makedirs(packages)
print("home =", os.path.dirname(python), "\ninclude-system-site-packages = false", file=open("pyvenv.cfg", "w"))
print(*sys.path, sep="\n", file=open(packages + "/all.pth", "w"))
print(os.path.abspath("bin"))' "$folder/python") && export PATH="$bin:$PATH"
fi
# Messages are in English, and numbers have a point, as tests expect; tests/tools/exported.bats has a comma.
export LC_ALL=C.UTF-8
unset CDPATH
case ${TMPDIR:-} in *[[:space:]]*) unset TMPDIR ;; esac # make has no names with spaces
# Tests run beside each other, so OpenMP's threads sleep while they wait instead of spinning on a core.
export OMP_WAIT_POLICY=passive
# A program that trains for some steps spends a good part of its time on the first use of its memory, less with large pages.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1

prove --timer --jobs "${JOBS:-5}" --exec tests/tap.sh "$@" || case ${RERUN:-} in
later | never) ;;
*) tests/again.sh "$folder" ;;
esac
[ "${RERUN:-}" = later ] || tests/summary.py "$folder"
