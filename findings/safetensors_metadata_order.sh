#!/bin/sh
# Tool:  safetensors 0.8.0, save with metadata
# Guess: the same tensors and the same metadata give the same bytes, so files can be compared by their checksums.
# Seen:  the metadata's keys come in another order at each call; files with one key or none are the same.
# > no metadata: the same bytes, 20 of 20 times
# > 1 key: the same bytes, 20 of 20 times
# > 5 keys: several files, all with the same metadata
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install safetensors==0.8.0 numpy==2.4.6

python - <<'EOF' 2>"$tmp/errors" | verdict
import json
import numpy as np
from safetensors.numpy import save

def metadata(file):
    size = int.from_bytes(file[:8], 'little')
    return json.loads(file[8:8 + size]).get('__metadata__')

for name, count in ('no metadata', 0), ('1 key', 1), ('5 keys', 5):
    given = {f'key {i}': 'value' for i in range(count)} or None
    files = [save({'a': np.zeros(2, np.float32)}, given) for _ in range(20)]
    if len(set(files)) == 1:
        print(f'{name}: the same bytes, 20 of 20 times')
    elif all(metadata(file) == given for file in files):
        print(f'{name}: several files, all with the same metadata')
EOF
