#!/bin/sh
# Usage: tests/cuda/stand_in.sh "TESTS"      Runs tests in a build whose GPUs are the stand-in's.
# It is a copy of the tree in build/stand_in, programs and all: build/stand_in/01_single_gpu/run.sh works.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
copy=build/stand_in
[ -n "${1% }" ] || { echo 'no test: none of this check is in this sample' && exit; }
tests/copy_tree.sh "$copy"
"$copy/tests/cuda_stand_in/toolkit.sh" "$copy/toolkit"

sources=$(echo "$1" | tr " " "\n" | grep "\.c$" | tr "\n" " ") || :
case "$1 $sources" in *cudnn.bats*nn/test_conv.c*) ;; *cudnn.bats*) sources="$sources tests/common/nn/test_conv.c" ;; esac # it runs this
export TAP_DIR="${TAP_DIR:-$PWD/build/tap}/stand_in" TEST_DEVICE=cuda
# One CUDA_ARCH for all: tests that call make with another one would rebuild the programs that others run.
make -s -j "$(nproc)" -C "$copy" test MPI=0 CUDA=1 CUDA_ARCH=all-major CUDA_HOME="$PWD/$copy/toolkit" \
    TEST_SOURCES="$sources" TESTS="$1" JOBS="$(nproc)"
