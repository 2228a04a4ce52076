#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.onnx.export
# Guess: a small model is one file, since only those beyond 2 GB need a second one.
# Seen:  weights of 4 kB lie in NAME.onnx.data, and the .onnx moved alone cannot be loaded.
# > one.onnx, one.onnx.data; alone: FileNotFoundError or ValidationError
# > with external_data=False: one.onnx; alone: loaded
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 numpy==2.4.6

python - "$tmp" 2>"$tmp/errors" <<'EOF' | verdict
import contextlib, io, os, shutil, sys
import onnx
import torch

def export(folder, **options):
    os.makedirs(folder + '/elsewhere')
    with contextlib.redirect_stdout(io.StringIO()):
        torch.onnx.export(torch.nn.Linear(1000, 1), (torch.zeros(1, 1000),), folder + '/one.onnx', **options)
    shutil.copy(folder + '/one.onnx', folder + '/elsewhere')
    try:
        onnx.load(folder + '/elsewhere/one.onnx')
        alone = 'loaded'
    except (FileNotFoundError, onnx.checker.ValidationError):
        alone = 'FileNotFoundError or ValidationError'
    return ', '.join(sorted(name for name in os.listdir(folder) if 'one' in name)) + '; alone: ' + alone

print(export(sys.argv[1] + '/a'))
print('with external_data=False:', export(sys.argv[1] + '/b', external_data=False))
EOF
