#!/bin/sh
# Tool:  the wheels nvidia-nccl-cu13 and nvidia-nccl-cu12 2.32.3
# Guess: two packages, two libraries, as torch for CUDA 13 beside jax for CUDA 12 would need; or pip objects.
# Seen:  they own the same file: the later one replaces it. Removing that one takes the file of the other, too, which
#        pip goes on to list.
# > nvidia-nccl-cu13: cuda13.4
# > then nvidia-nccl-cu12, too: cuda12.9
# > nvidia-nccl-cu12 removed: nvidia-nccl-cu13 listed, no library, pip check: No broken requirements found.
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the wheels are those of x86-64"

# built_for: the CUDA that the library of NCCL, said by itself, is built for
built_for() {
    grep -aoh 'NCCL version [0-9.]*+cuda[0-9.]*' "$tmp"/venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2 |
        sed 's/.*+//' | sort -u
}
install --no-deps nvidia-nccl-cu13==2.32.3
echo "nvidia-nccl-cu13: $(built_for)" >"$tmp/all"
install --no-deps nvidia-nccl-cu12==2.32.3
echo "then nvidia-nccl-cu12, too: $(built_for)" >>"$tmp/all"
pip uninstall -qy nvidia-nccl-cu12
listed=$(pip list --disable-pip-version-check 2>"$tmp/errors" | grep -o 'nvidia-nccl-[a-z0-9]*')
ls "$tmp"/venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2 >"$tmp/library" 2>&1 && has=library || has="no library"
echo "nvidia-nccl-cu12 removed: $listed listed, $has, pip check: $(pip check --disable-pip-version-check)" >>"$tmp/all"
verdict <"$tmp/all"
