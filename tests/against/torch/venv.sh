#!/bin/sh
# Usage: tests/against/torch/venv.sh      Makes a venv with PyTorch, once, and prints where its programs lie.
# TORCH_VENV names the folder: an environment that has torch, numpy, safetensors and tensorboard, or a new one.
set -eu
venv=${TORCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/torch-venv}
works() {
    "$venv/bin/python" -c 'import numpy, safetensors.torch, tensorboard.summary, torch.distributed.run' 2>/dev/null
}
works && echo "$venv/bin" && exit

# Two that come at once must not write into one folder: the second waits for the first.
mkdir -p "$venv" && exec 9>"$venv/.lock" && flock -w 1800 9
works && echo "$venv/bin" && exit

# PyTorch for CPUs is the smaller one, but only its own index has it; PyPI's has several GB of CUDA.
echo "torch: installing PyTorch into $venv (minutes, up to 6 GB)" >&2
python3 -m venv "$venv" >&2
pip() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
}
pip --timeout 10 --retries 0 --index-url https://download.pytorch.org/whl/cpu torch ||
    pip torch || { echo "torch: no PyTorch: is this machine online?" >&2 && exit 1; }
pip numpy safetensors tensorboard
works || { "$venv/bin/python" -c 'import numpy, safetensors.torch, tensorboard.summary, torch.distributed.run' && exit 1; }
echo "$venv/bin"
