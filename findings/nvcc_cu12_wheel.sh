#!/bin/sh
# Tool:  the wheels nvidia-cuda-nvcc-cu12 12.9.86 and nvidia-cuda-nvcc 13.5.37
# Guess: a wheel named after nvcc holds nvcc.
# Seen:  that of CUDA 12 has ptxas as its only program; nvcc comes with CUDA 13's.
# > nvidia-cuda-nvcc-cu12 12.9.86: ptxas
# > nvidia-cuda-nvcc 13.5.37: __nvcc_device_query bin2c cudafe++ fatbinary nvcc nvlink ptxas
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the wheels are those of x86-64"

for package in nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-nvcc==13.5.37; do
    mkdir "$tmp/$package"
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$tmp/$package" "$package" >&2 || cannot "no $package"
    echo "${package%==*} ${package#*==}:" "$(python3 -m zipfile -l "$tmp/$package"/*.whl | awk '{ print $1 }' |
        sed -n 's|.*/bin/\([^/.]*\)$|\1|p' | sort | tr '\n' ' ' | sed 's/ $//')"
done >"$tmp/all"
verdict <"$tmp/all"
