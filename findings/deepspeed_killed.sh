#!/bin/sh
# Tool:  the launcher of deepspeed 0.19.8 with PyTorch 2.15.0, on CPUs
# Guess: where SIGKILL ends a rank (as where memory is short), the launcher ends with 137 = 128 + 9, or with 1.
# Seen:  247 = 256 - 9, Python's return code -9 given to exit; exit status 5 stays 5.
# > a rank ends with 5: 5
# > SIGKILL ends a rank: 247
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 deepspeed==0.19.8

# status COMMAND: deepspeed's exit status after rank 0 has run COMMAND and rank 1 has slept.
status() {
    printf '%s\n' '#!/bin/sh' "[ \$RANK = 1 ] || $1" 'exec sleep 20' >"$tmp/rank.sh"
    chmod +x "$tmp/rank.sh"
    status=0
    DS_ACCELERATOR=cpu deepspeed --num_gpus 2 --no_python --no_local_rank "$tmp/rank.sh" >"$tmp/errors" 2>&1 || status=$?
    echo $status
}
{
    echo "a rank ends with 5: $(status 'exit 5')"
    # shellcheck disable=SC2016 # the rank's own number
    echo "SIGKILL ends a rank: $(status 'kill -KILL $$')"
} | verdict
