#!/bin/sh
# Usage: tools/cuda_home.sh              Prints where CUDA is: nvcc's folder (it knows it behind links and wrappers, too), or
#                                        that of the wheel nvidia-cuda-nvcc in v/ or in python3.
#        tools/cuda_home.sh lib DIR      Prints where the libraries of CUDA in DIR are.
#        tools/cuda_home.sh nccl DIR     Prints where NCCL is: NCCL_HOME, CUDA's DIR, /usr, or a wheel. Also cudnn.
#        tools/cuda_home.sh DIR NCCL     Prints a line if CUDA in DIR is too old, or NCCL, which lies in NCCL.
set -eu

# The first folder nvidia/PATTERN of Python's packages that has FILE; the tree's own v/ comes first.
wheel() { # PATTERN FILE
    for python in v/bin/python "${PYTHON:-python3}"; do
        found=$("$python" -c 'import glob, os, sys
homes = [home for path in sys.path for home in sorted(glob.glob(os.path.join(path, "nvidia", sys.argv[1])), reverse=True)]
print(next((home for home in homes if os.path.exists(os.path.join(home, sys.argv[2]))), ""))' "$1" "$2" 2>/dev/null) || found=''
        [ -z "$found" ] || { echo "$found" && return; }
    done
}

if [ $# -eq 0 ]; then
    nvcc=$(command -v nvcc) || nvcc=/usr/local/cuda/bin/nvcc
    [ -x "$nvcc" ] || { home=$(wheel 'cu[0-9]*' bin/nvcc) && nvcc=${home:-/usr/local/cuda}/bin/nvcc; }
    home=$("$nvcc" --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p') || :
    [ -n "$home" ] || home=$(readlink -f "$nvcc") || home=$nvcc # no CUDA
    home=${home%/bin/nvcc}
    cd "$home" 2>/dev/null && pwd || echo "$home"
    exit
fi

case $1 in
lib) # a toolkit has lib64, wheels and conda have lib, Debian's package has a folder for the machine
    for folder in "$2/lib64" "$2/lib" "$2"/targets/*/lib "$2"/lib/*-linux-gnu; do
        [ ! -e "$folder/libcudart_static.a" ] || { echo "$folder" && exit; }
    done
    echo "$2/lib64" && exit ;;
nccl) given=${NCCL_HOME:-} header=nccl.h ;;
cudnn) given=${CUDNN_HOME:-} header=cudnn.h ;;
*) header='' ;;
esac
if [ -n "$header" ]; then
    for home in "$given" "$2" /usr; do
        [ -z "$home" ] || [ ! -f "$home/include/$header" ] || { echo "$home" && exit; }
    done
    wheel "$1" "include/$header"
    exit
fi

# cudaGraphInstantiate has three parameters since CUDA 12; ncclCommSplit came with NCCL 2.18.
release=$("$1/bin/nvcc" --version | sed -n 's/.* release \([0-9]*\)\..*/\1/p')
if [ "${release:-12}" -lt 12 ]; then
    echo "$1 has CUDA $release, and 12 is the oldest that will do: install a newer one, or say CUDA=0" && exit
fi
header=$2/include/nccl.h
[ -n "$2" ] && [ -f "$header" ] || exit 0
code=$(sed -n 's/^#define NCCL_VERSION_CODE  *//p' "$header")
[ "${code:-21801}" -ge 21801 ] ||
    echo "$header is NCCL's of version code $code, and 21801 (2.18.1) is the oldest that will do: install a newer one, or say NCCL=0"
