#!/usr/bin/env bats

# shellcheck disable=SC2086,SC2154 # several words in LINEAR; bats sets stderr
bats_require_minimum_version 1.5.0

setup() {
    OUT=$BATS_TEST_TMPDIR
    TRAIN=03_torchrun_env/train DDPRUN=03_torchrun_env/ddprun
    LINEAR="--model linear --threads 1"
}

@test "--show-topology: rank 0 lists the ranks" {
    local line='node 0, host [^ ]+, local rank [01], cpu, cores [0-9,-]+'
    for launched in "$TRAIN" 04_slurm_multinode/train 05_fault_tolerance/train; do
        run -0 --separate-stderr $DDPRUN --nproc-per-node 2 $launched 0 $LINEAR --device cpu --show-topology on --checkpoint-dir "$OUT/c"
        [ "$(grep -cE "^\[rank 0/2\] rank [01]: $line\$" <<<"$stderr")" -eq 2 ]
    done
}

@test "TensorBoard's text of a run lists them, too" {
    run -0 $DDPRUN --nproc-per-node 2 $TRAIN 0 $LINEAR --device cpu --checkpoint-dir "$OUT/c" --metrics-dir "$OUT/m"
    for rank in 0 1; do
        [ "$(grep -acE "^\| $rank \| node 0, host [^ ]+, local rank $rank, cpu, cores [0-9,-]+ \|\$" "$OUT"/m/events.*)" -eq 1 ]
    done
}

@test "--show-topology under mpirun, which does not number the nodes" {
    run -0 --separate-stderr env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 \
        04_slurm_multinode/train 0 $LINEAR --device cpu --show-topology on --checkpoint-dir "$OUT/c"
    [ "$(grep -cE '^\[rank 0/1\] (rank 0: )?host [^ ]+[,:] local rank 0' <<<"$stderr")" -eq 2 ]
    [[ $stderr != *"node ?"* ]]
}
