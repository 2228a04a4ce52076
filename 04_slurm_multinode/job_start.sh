#!/bin/sh
# Usage: . 04_slurm_multinode/job_start.sh      How every job script begins, once it knows where it is.
# MODULES='cuda openmpi' sbatch ... loads these environment modules first, on clusters that have some.

if [ -n "${MODULES:-}" ]; then
    set +eu # the files below are not ours
    for init in "${MODULESHOME:-}/init/sh" /etc/profile.d/modules.sh /etc/profile.d/lmod.sh; do
        # shellcheck disable=SC1090 # whichever is there
        command -v module >/dev/null || [ ! -r "$init" ] || . "$init"
    done
    # shellcheck disable=SC2086 # several names
    module load $MODULES || { echo "$0: cannot load MODULES=\"$MODULES\" here; module avail lists what there is" >&2 && exit 1; }
    set -eu
fi

# What the job got.
echo "job ${SLURM_JOB_ID:-${PBS_JOBID:-}} has nodes ${SLURM_JOB_NODELIST:-$(sort -u "${PBS_NODEFILE:-/dev/null}" | paste -sd ,)};" \
    "its script is process $$ on $(uname -n), CUDA_VISIBLE_DEVICES is ${CUDA_VISIBLE_DEVICES:-not set}" >&2
