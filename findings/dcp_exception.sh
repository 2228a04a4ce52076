#!/bin/sh
# Tool:  PyTorch 2.15.0, torch.distributed.checkpoint
# Guess: a load that fails raises something that `except Exception` catches.
# Seen:  CheckpointException is a BaseException, as KeyboardInterrupt is, and goes past that handler.
# > not caught by except Exception: CheckpointException, whose bases are (<class 'BaseException'>,)
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0

python - "$tmp/saved" 2>"$tmp/errors" <<'EOF' | verdict
import sys
import torch
import torch.distributed.checkpoint as dcp

dcp.save({'weight': torch.zeros(2)}, checkpoint_id=sys.argv[1])
try:
    try:
        dcp.load({'weight': torch.zeros(3)}, checkpoint_id=sys.argv[1])
    except Exception as error:
        print('caught by except Exception:', type(error).__name__)
except BaseException as error:
    print(f'not caught by except Exception: {type(error).__name__}, whose bases are {type(error).__bases__}')
EOF
