#!/bin/sh
# Usage: tests/cuda_stand_in/toolkit.sh DIR      Makes DIR a CUDA toolkit of the stand-in (stand_in.h).
set -eu
mkdir -p "$1/bin" "$1/lib64"
toolkit=$(CDPATH='' cd "$1" && pwd)
CDPATH='' cd "$(dirname "$0")"
ln -sfn "$PWD/include" "$toolkit/include"
ln -sf "$PWD/nvcc" "$PWD/compute-sanitizer" "$toolkit/bin"

# One library is the runtime, cuBLAS, cuDNN and NCCL. The runtime's archive, with which programs are linked, is
# the linker's way to say where it is. A program's function of the same name as one here does not take its place.
library=$toolkit/lib64/libcuda_stand_in.so
${CC:-cc} -std=c11 -D_GNU_SOURCE -O3 -march=native -g -Wall -Wextra -fopenmp -fPIC -shared \
    -Wl,-Bsymbolic-functions -ffp-contract=fast -o "$library" ./*.c -lpthread
ln -sf libcuda_stand_in.so "$toolkit/lib64/libcublas.so.13"
ln -sf libcuda_stand_in.so "$toolkit/lib64/libcudnn.so.9"
ln -sf libcuda_stand_in.so "$toolkit/lib64/libnccl.so.2"
echo "INPUT($library)" >"$toolkit/lib64/libcudart_static.a"
