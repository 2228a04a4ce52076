#!/bin/sh
# Tool:  cuda-core 1.2.2, beside NVRTC 13.2 by cuda-bindings 13.2.0
# Guess: a Program for a named architecture compiles on a machine without a GPU, as nvcc and NVRTC do.
# Seen:  it asks for the driver's libcuda.so.1 first, and raises an error without it. cuda-bindings' NVRTC compiles.
# > cuda.bindings.nvrtc, sm_90: .target sm_90
# > cuda.core.Program, sm_90: RuntimeError, libcuda.so.1
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "the wheels are those of x86-64"
/sbin/ldconfig -p | grep -q libcuda.so.1 && cannot "here is a driver"
install cuda-core==1.2.2 cuda-bindings==13.2.0 nvidia-cuda-nvrtc==13.2.78 numpy==2.4.6

python - 2>"$tmp/errors" <<'EOF' | verdict
import re
from cuda.bindings import nvrtc
from cuda.core import Program, ProgramOptions

source = '__global__ void fill(float *x) { x[threadIdx.x] = 1; }'
_, program = nvrtc.nvrtcCreateProgram(source.encode(), b'fill.cu', 0, [], [])
nvrtc.nvrtcCompileProgram(program, 1, [b'--gpu-architecture=sm_90'])
_, size = nvrtc.nvrtcGetPTXSize(program)
ptx = b' ' * size
nvrtc.nvrtcGetPTX(program, ptx)
print('cuda.bindings.nvrtc, sm_90:', re.search(r'\.target \S+', ptx.decode())[0])
try:
    seen = Program(source, 'c++', ProgramOptions(arch='sm_90')).compile('ptx').code[:20]
except Exception as error:
    seen = type(error).__name__ + ', ' + (re.findall(r'libcuda\S*', str(error)) or [str(error)])[0]
print('cuda.core.Program, sm_90:', seen)
EOF
