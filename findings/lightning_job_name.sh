#!/bin/sh
# Tool:  PyTorch Lightning 2.6.6 with PyTorch 2.15.0, under the variables that srun sets for a rank
# Guess: whether Lightning takes its rank from Slurm does not depend on the job's name.
# Seen:  a job named bash or interactive is taken for no Slurm job, whatever the other variables say.
# > job train: SLURMEnvironment found, rank 1 of 2
# > job bash: not found
# > job interactive: not found
set -eu
# shellcheck source=findings/common.sh
. "$(dirname "$0")/common.sh"
install torch==2.15.0 pytorch-lightning==2.6.6 numpy==2.4.6

for name in train bash interactive; do
    SLURM_JOB_NAME=$name SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_NTASKS_PER_NODE=2 \
        SLURM_NODELIST=node1 python - 2>"$tmp/errors" <<'EOF'
import os
from lightning_fabric.plugins.environments import SLURMEnvironment

found = 'not found'
if SLURMEnvironment.detect():
    slurm = SLURMEnvironment()
    found = f'SLURMEnvironment found, rank {slurm.global_rank()} of {slurm.world_size()}'
print(f'job {os.environ["SLURM_JOB_NAME"]}: {found}')
EOF
done | verdict
