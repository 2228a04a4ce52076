#!/bin/sh
# Usage: tests/sanitize.sh address,undefined|thread "TESTS"     Runs tests in a build that watches.
set -eu
cd "$(dirname "$0")/.."
sanitizers=$1
tests=$2
copy=build/sanitize-${sanitizers%%,*}

# A copy of its own: programs lie beside their source, and the tree's shall stay as they are.
tests/copy_tree.sh "$copy"
[ ! -d data/mnist ] || ln -sfn "$PWD/data/mnist" "$copy/data/mnist"

flags="-O1 -g -fno-omit-frame-pointer -fsanitize=$sanitizers -fno-sanitize-recover=all"
case $sanitizers in
thread) openmp=-Wno-unknown-pragmas ;;
*) openmp=-fopenmp ;;
esac
export TAP_DIR="${TAP_DIR:-$PWD/build/tap}/${sanitizers%%,*}"
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="log_path=$PWD/$copy/race"
# MPI's own libraries leak and are not ours to mend.
make -s -C "$copy" test MPI=0 CUDA=0 OPENMP="$openmp" CFLAGS="$flags" LDFLAGS="-fsanitize=$sanitizers" TESTS="$tests" || failed=$?
cat "$copy"/race.* 2>/dev/null && exit 1 # also of a test that passed when it ran again
exit ${failed:-0}
