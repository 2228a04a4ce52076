#!/bin/sh
# Usage: . 04_slurm_multinode/job_start.sh      The common first part of the job scripts.
# MODULES='cuda openmpi' sbatch ... loads these environment modules first, on clusters that have them.

if [ -n "${MODULES:-}" ]; then
    set +eu # the files below are not ours
    for init in "${MODULESHOME:-}/init/sh" /etc/profile.d/modules.sh /etc/profile.d/lmod.sh; do
        # shellcheck disable=SC1090 # whichever exists
        command -v module >/dev/null || [ ! -r "$init" ] || . "$init"
    done
    # shellcheck disable=SC2086 # several names
    module load $MODULES || { echo "$0: cannot load MODULES=\"$MODULES\" here; module avail lists what there is" >&2 && exit 1; }
    set -eu
fi

# A rank needs this secret to join. It is a file in the home folder, which all nodes see and only this user may read; the
# job passes on its path alone. torchrun's agents could not use it, nor could a program that was built without
# extras/secret. A path of your own, or an empty one, is kept.
if [ -z "${DDP_SECRET_FILE+set}" ] && [ "${LAUNCHER:-}" != torchrun ] && grep -q 'ddp secret' "${here:-04_slurm_multinode}/train"; then
    job=${SLURM_JOB_ID:-${PBS_JOBID:-$$}}
    DDP_SECRET_FILE=${HOME:-}/.ddp_secret_${job%%.*} && export DDP_SECRET_FILE
    trap 'rm -f "$DDP_SECRET_FILE"' EXIT
    trap 'exit 143' TERM
    { rm -f "$DDP_SECRET_FILE" && (umask 077 && head -c 32 /dev/urandom >"$DDP_SECRET_FILE"); } 2>/dev/null || {
        echo "$0: cannot write the job's secret to $DDP_SECRET_FILE (is HOME read-only or full here?): set HOME to a folder that" \
            "all nodes see, or DDP_SECRET_FILE to a file of yours there" >&2
        exit 1
    }
fi

# last NAME WORD...: the value of this option among the words; the last one counts.
last() {
    name=$1 value=''
    while shift && [ $# -gt 0 ]; do
        # shellcheck disable=SC2254 # a name may have [-_] in it
        case $1 in --$name=*) value=${1#*=} ;; --$name) value=${2:-} ;; esac
    done
    echo "$value"
}

# Each task of a job array (--array) is a job of its own, with a folder of its own inside the checkpoint folder.
task=${SLURM_ARRAY_TASK_ID:-${PBS_ARRAY_INDEX:-}}
if [ -n "$task" ]; then
    config=$(last config "$@") folder=$(last 'checkpoint[-_]dir' "$@")
    [ -n "$folder" ] ||
        folder=$(sed -n 's/^checkpoint[-_]dir: *["'"'"']\{0,1\}\([^"'"'"'#]*[^"'"'"'# ]\).*/\1/p' "${config:-config.yaml}" 2>/dev/null | tail -n 1)
    folder=${folder:-checkpoints}/task_$task
    set -- "$@" --checkpoint-dir "$folder"
    echo "task $task of a job array: --checkpoint-dir $folder" >&2
fi

# Reports what the job was given.
echo "job ${SLURM_JOB_ID:-${PBS_JOBID:-}} has nodes ${SLURM_JOB_NODELIST:-$(sort -u "${PBS_NODEFILE:-/dev/null}" | paste -sd ,)};" \
    "its script is process $$ on $(uname -n), CUDA_VISIBLE_DEVICES is ${CUDA_VISIBLE_DEVICES:-not set}" >&2
