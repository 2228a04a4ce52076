#!/bin/sh
# Usage: tests/against/formats/venv.sh NAME PACKAGE==VERSION...      Makes a venv with these packages, once, and prints its python.
# FORMATS_HOME names the folder of all: ~/.cache/ddp.c/formats if not set. With TORCH_BIN (tests/against/torch/venv.sh) the
# venv also has PyTorch's packages, and is another one: NAME-torch.
set -eu
name=$1 && shift
torch=${TORCH_BIN:+$("$TORCH_BIN/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}
home=${FORMATS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/ddp.c/formats} venv=$home/$name${torch:+-torch}
mkdir -p "$venv" && exec 9>"$venv/.lock" && flock -w 600 9
if [ "$(cat "$venv/has" 2>/dev/null)" != "$*" ]; then
    echo "formats: installing $* into $venv" >&2
    "${torch:+$TORCH_BIN/}python3" -m venv "$venv" >&2
    [ -z "$torch" ] || echo "$torch" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --timeout 10 --retries 1 "$@" >&2
    echo "$*" >"$venv/has"
fi
echo "$venv/bin/python"
