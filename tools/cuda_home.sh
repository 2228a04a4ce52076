#!/bin/sh
# Usage: tools/cuda_home.sh              Prints where CUDA is; nvcc knows it behind links and wrappers, too.
#        tools/cuda_home.sh nccl DIR     Prints where NCCL is: NCCL_HOME, CUDA's DIR, /usr, or a package of Python's.
#        tools/cuda_home.sh DIR NCCL     Prints a line if CUDA in DIR is too old, or NCCL, which lies in NCCL.
set -eu
if [ $# -eq 0 ]; then
    nvcc=$(command -v nvcc) || nvcc=/usr/local/cuda/bin/nvcc
    home=$("$nvcc" --dryrun -E -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p') || :
    [ -n "$home" ] || home=$(readlink -f "$nvcc") || home=$nvcc # there is none
    home=${home%/bin/nvcc}
    cd "$home" 2>/dev/null && pwd || echo "$home"
    exit
fi

if [ "$1" = nccl ]; then
    for home in "${NCCL_HOME:-}" "$2" /usr; do
        [ -z "$home" ] || [ ! -f "$home/include/nccl.h" ] || { echo "$home" && exit; }
    done
    "${PYTHON:-python3}" -c 'import os, sys
homes = [os.path.join(path, "nvidia", "nccl") for path in sys.path]
print(next((home for home in homes if os.path.exists(home + "/include/nccl.h")), ""))' 2>/dev/null || :
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
