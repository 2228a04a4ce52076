# Shared by the tests of Slurm: a cluster of their own, and reference results.

bats_require_minimum_version 1.5.0
load ../../helpers/free_port

# Skips where there is no Slurm to install a cluster of, or no network that it would start with.
need_slurm() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    repository=$PWD cluster=$PWD/04_slurm_multinode/local_cluster.sh
    export PATH=$PATH:/usr/sbin:/sbin
    for program in slurmctld slurmd munged sbatch; do
        command -v $program >/dev/null || skip "no $program: ./setup.sh --slurm"
    done
    grep -qv '^Inter\|^ face\|^ *lo:' /proc/net/dev || skip "Slurm takes a network besides loopback"
    unset "${!SLURM_@}" "${!SBATCH_@}" RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT \
        OMP_NUM_THREADS GLOO_SOCKET_IFNAME LAUNCHER
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

# Processes of jobs that a test has started: OUT is unique, and in their environment.
job_processes() {
    grep -lsz '^SLURM_JOB_ID=' /proc/[0-9]*/environ | xargs -r grep -lsxz "OUT=$OUT" | grep -v "/$$/" || true
}

# eventually COMMAND...: it succeeds within some minutes, which only a test that fails takes; if not, what
# Slurm says of itself.
eventually() {
    for _ in $(seq 2000); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "in vain: $*"
    squeue && tail -n 20 "${SLURM_CONF%/*}"/*.log
    return 1
}

losses() {
    sed -n 's/^Train Epoch.*Loss: //p' "$@"
}

# Two columns of losses agree to 1e-4, and are not empty.
agree() {
    paste "$1" "$2" | awk 'NF != 2 || ($1 - $2) ^ 2 > 1e-8 { print; bad = 1 } END { exit bad || NR == 0 }'
}

# up_before RANK...: for a simulated train, lines of shell that wait for these ranks: none of them is late
# for the others, however busy the machine is.
up_before() {
    echo 'touch "$OUT/up_$SLURM_PROCID"'
    echo "for rank in $*; do until [ -e \"\$OUT/up_\$rank\" ]; do sleep 0.1; done; done"
}

# A step 04 of its own in $OUT/04, whose train is the shell script TEXT.
pretend_train() {
    mkdir "$OUT/04"
    ln -s "$repository/03_torchrun_env" "$OUT"
    cp "$repository"/04_slurm_multinode/*.slurm "$OUT/04"
    printf '#!/bin/sh\n%s\n' "$1" >"$OUT/04/train"
    chmod +x "$OUT/04/train"
}
