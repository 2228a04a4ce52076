#!/bin/sh
# Tool:  submitit 1.5.4, LocalExecutor with two tasks, beside its SlurmExecutor, whose jobs run the same command
# Guess: to try a job at home before Slurm has it, the local executor sets Slurm's variables, or PyTorch's.
# Seen:  it sets names of its own; the command must know SUBMITIT_LOCAL_GLOBALID and SUBMITIT_LOCAL_NTASKS, or is alone twice.
# > SLURM_PROCID, SLURM_NTASKS, RANK, WORLD_SIZE: not set
# > tasks: 0 of 2, 1 of 2 by SUBMITIT_LOCAL_GLOBALID and SUBMITIT_LOCAL_NTASKS
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
unset SLURM_PROCID SLURM_NTASKS RANK WORLD_SIZE
install submitit==1.5.4

cat >"$tmp/job.py" <<'END'
import submitit, sys
executor = submitit.LocalExecutor(folder=sys.argv[1] + "/log")
executor.update_parameters(tasks_per_node=2, timeout_min=2)
print(*executor.submit(submitit.helpers.CommandFunction(["env"], verbose=False)).results(), sep="")
END
timeout 120 python "$tmp/job.py" "$tmp" >"$tmp/env" 2>"$tmp/errors"
{
    grep -E '^(SLURM_PROCID|SLURM_NTASKS|RANK|WORLD_SIZE)=' "$tmp/env" || echo "SLURM_PROCID, SLURM_NTASKS, RANK, WORLD_SIZE: not set"
    sed -n 's/^SUBMITIT_LOCAL_GLOBALID=//p' "$tmp/env" | sort | tr '\n' ' ' |
        sed "s/\([0-9]\) /\1 of $(sed -n 's/^SUBMITIT_LOCAL_NTASKS=//p' "$tmp/env" | head -n 1), /g; s/^/tasks: /; s/, \$/ by SUBMITIT_LOCAL_GLOBALID and SUBMITIT_LOCAL_NTASKS/"
    echo
} | grep . | verdict
