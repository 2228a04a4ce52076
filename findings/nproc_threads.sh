#!/bin/sh
# Tool:  nproc of coreutils 9.1 (Debian 12)
# Guess: nproc counts the processors that a process may use, and knows nothing of OpenMP.
# Seen:  it gives OMP_NUM_THREADS, and so does a job's "make -j$(nproc)": one compiler at a time where a launcher, as
#        torchrun does, has set it to 1, and 64 on any machine where it is 64. --all does not look at it.
# > OMP_NUM_THREADS=1: 1
# > OMP_NUM_THREADS=64: 64
# > OMP_NUM_THREADS=64 OMP_THREAD_LIMIT=8: 8
# > OMP_NUM_THREADS=1000000 with --all: not 1000000
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
nproc --version | grep -q '^nproc (GNU coreutils) 9\.1$' || cannot "another nproc"
unset OMP_THREAD_LIMIT

{
    echo "OMP_NUM_THREADS=1: $(OMP_NUM_THREADS=1 nproc)"
    echo "OMP_NUM_THREADS=64: $(OMP_NUM_THREADS=64 nproc)"
    echo "OMP_NUM_THREADS=64 OMP_THREAD_LIMIT=8: $(OMP_NUM_THREADS=64 OMP_THREAD_LIMIT=8 nproc)"
    all=$(OMP_NUM_THREADS=1000000 nproc --all)
    echo "OMP_NUM_THREADS=1000000 with --all: $([ "$all" = 1000000 ] || echo "not ")1000000"
} | verdict
