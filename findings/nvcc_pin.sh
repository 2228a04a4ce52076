#!/bin/sh
# Tool:  the wheel nvidia-cuda-nvcc 13.2.86
# Guess: a pinned nvcc brings the parts that fit it, and compiles a kernel.
# Seen:  its dependency nvidia-nvvm has no version, so that pip takes the newest (13.5.37 here): the compiler's front
#        half writes a PTX version that the pinned ptxas does not know. Pinning nvidia-nvvm, too, helps.
# > nvcc 13.2.86 alone: ptxas: Unsupported .version
# > nvcc 13.2.86 with nvvm 13.2.86: compiled
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the wheels are those of x86-64"
command -v g++ >/dev/null || cannot "nvcc needs g++"

echo '__global__ void fill(float *x) { x[threadIdx.x] = 1; }' >"$tmp/fill.cu"
# compiles PACKAGE==VERSION...: what nvcc says of a kernel.
compiles() {
    rm -rf "$tmp/cuda"
    python3 -m pip install -q --disable-pip-version-check --target "$tmp/cuda" "$@" >"$tmp/pip" 2>&1 || return
    if "$tmp/cuda/nvidia/cu13/bin/nvcc" -c "$tmp/fill.cu" -o "$tmp/fill.o" >"$tmp/errors" 2>&1; then
        echo compiled
    else
        echo "ptxas: $(grep -o 'Unsupported .version' "$tmp/errors")"
    fi
}
alone=$(compiles nvidia-cuda-nvcc==13.2.86) || cannot "pip does not install nvcc"
both=$(compiles nvidia-cuda-nvcc==13.2.86 nvidia-nvvm==13.2.86) || cannot "pip does not install nvcc with nvvm"
printf 'nvcc 13.2.86 alone: %s\nnvcc 13.2.86 with nvvm 13.2.86: %s\n' "$alone" "$both" | verdict
