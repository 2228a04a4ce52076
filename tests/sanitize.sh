#!/bin/sh
# Usage: tests/sanitize.sh address,undefined|thread|list "TESTS"     Runs tests in a build with these sanitizers.
# ONLY=NAME runs this one of them; SAMPLE=N (0 to 4) runs a fifth of the files. list: only names the tests.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
sanitizers=$1
# shellcheck disable=SC2086 # several words
tests=$(tests/sample.sh $2 | tr -s ' ' '\n' | awk -v only="${ONLY:-}" 'only == "" || $1 == only || $1 ~ "/(test_)?" only "([.](c|bats))?$"')
[ "$sanitizers" != list ] || { echo "$tests" && exit; }
[ -n "$tests" ] || { echo "no test: none of $sanitizers is among those asked for" && exit; }
copy=build/sanitize-${sanitizers%%,*}

# Builds in a copy, because programs lie beside their source, and the tree's must not change.
tests/copy_tree.sh "$copy"
[ ! -d data/mnist ] || ln -sfn "$PWD/data/mnist" "$copy/data/mnist"

flags="-O1 -g -fno-omit-frame-pointer -fsanitize=$sanitizers -fno-sanitize-recover=all"
case $sanitizers in
thread) openmp=-Wno-unknown-pragmas ;;
*) openmp=-fopenmp ;;
esac
export TAP_DIR="${TAP_DIR:-$PWD/build/tap}/${sanitizers%%,*}"
sources=$({ echo tests/common/comm/test_replicas.c && echo "$tests" | grep '\.c$'; } | sort -u) # tests/steps/checklist.bats starts it, too
log=log_path=$PWD/$copy/report
export ASAN_OPTIONS="detect_leaks=1:$log" UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="$log"
# MPI's own libraries leak, which this project cannot fix.
make -s -C "$copy" test MPI=0 CUDA=0 OPENMP="$openmp" CFLAGS="$flags" LDFLAGS="-fsanitize=$sanitizers" \
    TEST_SOURCES="$(echo "$sources" | tr '\n' ' ')" TESTS="$(echo "$tests" | tr '\n' ' ')" || failed=$?
# Any report of a sanitizer fails the check, even if the test passes. UBSan writes its reports to stderr and ignores
# log_path.
reports=$(cat "$copy"/report.* 2>/dev/null || :; grep -rs "runtime error: " "$TAP_DIR" || :)
if [ -n "$reports" ]; then
    {
        printf '1..1\nnot ok 1 - %s: no report\n' "$sanitizers"
        echo "$reports" | sed 's/^/# /'
        echo "# took 0 s, status 1 once, again: make check-sanitizers"
    } | tee "$TAP_DIR/tests/reports.tap"
    exit 1
fi
exit "${failed:-0}"
