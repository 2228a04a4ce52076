#!/usr/bin/env bats
# Jobs on a real Slurm with two nodes, which are both this machine.

load slurm_helper

setup_file() {
    need_slurm
    export DDP_CLUSTER_DIR=$BATS_FILE_TMPDIR/cluster
    $cluster up 3>&-
    options="--log-interval 1 --save-every 0 --timeout 200"
    cnn="--max-steps 12 $options" linear="--model linear --epochs 1 $options"
    export options cnn linear
    for job in cnn linear; do
        timeout 300 03_torchrun_env/run.sh 4 ${!job} --checkpoint-dir "$BATS_FILE_TMPDIR" | losses >"$BATS_FILE_TMPDIR/$job"
        [ -s "$BATS_FILE_TMPDIR/$job" ]
    done
}

teardown_file() {
    [ ! -e "$DDP_CLUSTER_DIR" ] || $cluster down
}

setup() {
    need_slurm
    eval "$($cluster env)"
    export OUT=$BATS_TEST_TMPDIR
    cd "$OUT"
    step=$repository/04_slurm_multinode
}

# job STATUS [OPTIONS OF SBATCH] SCRIPT [ARGUMENTS]: runs it to its end, which must have that status.
job() {
    expected=$1
    shift
    run timeout -k 10 300 "$step/submit.sh" "$@" 3>&-
    echo "$output"
    [ "$status" -eq "$expected" ]
}

# The job's losses are those of 4 ranks of step 03, to the last printed digit.
has_losses_of() {
    diff "$BATS_FILE_TMPDIR/$1" <(echo "$output" | losses)
}

@test "sbatch takes all the scripts" {
    for script in train train_ddprun train_mpirun; do
        sbatch --test-only "$step/$script.slurm"
        sbatch --test-only <(sed 's/^##SBATCH --partition=gpu/#SBATCH --partition=local/' "$step/$script.slurm")
    done
    run -1 sbatch --test-only <(sed 's/^##SBATCH/#SBATCH/' "$step/train.slurm")
    [[ $output == *artition* || $output == *gres* ]] # there is neither a queue named gpu nor a GPU
}

@test "a job that never fits is refused at once, not queued for ever" {
    for much in --nodes=3 --ntasks-per-node=17; do
        run -1 timeout 200 sbatch --parsable $much "$step/train.slurm"
        [[ $output == *"Batch job submission failed: "* ]]
    done
}

@test "srun: 2 nodes of 2 ranks have the losses of 4 ranks, cnn and linear" {
    job 0 "$step/train.slurm" $cnn
    has_losses_of cnn
    for rank in 0 1 2 3; do
        echo "$output" | grep -q "^\[rank $rank/4\] node $((rank / 2)) .* local rank $((rank % 2)) of 2 (SLURM_LOCALID)"
    done
    echo "$output" | grep -q "^job [0-9]* has nodes .*; its script is process [0-9]* on .*, CUDA_VISIBLE_DEVICES is "
    [ -e checkpoints/cnn_digits.safetensors ] # where sbatch was typed
    [ "$(ls logs_*.out logs_*.err | wc -l)" -eq 2 ]
    RANK=7 WORLD_SIZE=9 LOCAL_RANK=5 job 0 "$step/train.slurm" $linear # somebody's shell
    has_losses_of linear
}

@test "a launcher on each node: the same losses" {
    job 0 "$step/train_ddprun.slurm" $linear
    has_losses_of linear
    echo "$output" | grep -q '^\[rank 3/4\] node 1 (GROUP_RANK) .* local rank 1 of 2 (LOCAL_RANK)'
}

@test "mpirun on Slurm's nodes: the same losses" {
    command -v mpirun >/dev/null || skip "no mpirun"
    job 0 "$step/train_mpirun.slurm" $linear
    has_losses_of linear
    echo "$output" | grep -q '^\[rank 3/4\] .* local rank 1 of 2 (\(OMPI_COMM_WORLD_LOCAL_RANK\|MPI_LOCALRANKID\))'
}

@test "backend mpi, started by mpirun and by srun --mpi=pmix" {
    grep -q MPI=1 "$repository/${BUILD:-build}/parts" || skip "built without MPI"
    job 0 "$step/train_mpirun.slurm" $linear --backend mpi
    agree "$BATS_FILE_TMPDIR/linear" <(echo "$output" | losses)
    srun --mpi=list 2>&1 | grep -qw pmix || skip "this Slurm has no pmix"
    SLURM_MPI_TYPE=pmix job 0 "$step/train.slurm" $linear --backend mpi
    agree "$BATS_FILE_TMPDIR/linear" <(echo "$output" | losses)
    job 2 "$step/train.slurm" $linear --backend mpi # srun without pmix
    [[ $output == *"--backend mpi needs ranks that an MPI launcher started"* ]]
}

@test "nodes of 3 ranks and 1, and ranks dealt out in turn" {
    export MASTER_ADDR=127.0.0.1 SLURM_HOSTFILE=$OUT/hosts
    printf 'node1\nnode1\nnode1\nnode2\n' >hosts
    MASTER_PORT=$(free_port) run -0 timeout 300 \
        srun --ntasks=4 --distribution=arbitrary "$step/train" $linear
    echo "$output"
    has_losses_of linear
    echo "$output" | grep -q '^\[rank 2/4\] node 0 .* local rank 2 of 3'
    echo "$output" | grep -q '^\[rank 3/4\] node 1 .* local rank 0 of 1'
    unset SLURM_HOSTFILE
    MASTER_PORT=$(free_port) run -0 timeout 300 \
        srun --nodes=2 --ntasks-per-node=2 --distribution=cyclic "$step/train" $linear
    echo "$output"
    has_losses_of linear
    echo "$output" | grep -q '^\[rank 2/4\] node 0 .* local rank 1 of 2'
    echo "$output" | grep -q '^\[rank 1/4\] node 1 .* local rank 0 of 2'
}

@test "the first task to fail ends the job, with its status" {
    pretend_train 'rank=${RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}
[ $rank = 2 ] || exec sleep 1000
[ $1 != 9 ] || kill -9 $$
exit $1'
    for script in train train_ddprun train_mpirun; do
        [ $script != train_mpirun ] || command -v mpirun >/dev/null || continue
        job 3 "$OUT/04/$script.slurm" 3
        job 137 "$OUT/04/$script.slurm" 9
        [ -z "$(job_processes)" ]
    done
}

@test "75 from all tasks is 75 from the job" {
    pretend_train 'exit 75'
    for script in train train_ddprun; do
        job 75 "$OUT/04/$script.slurm"
    done
}

@test "scancel leaves no process, and submit.sh cancels when it is told to end" {
    pretend_train 'touch $OUT/up_${RANK:-$SLURM_PROCID}; exec sleep 1000'
    for script in train train_ddprun; do
        sbatch "$OUT/04/$script.slurm"
        eventually test -e up_0 -a -e up_1 -a -e up_2 -a -e up_3
        scancel --name=ddp
        eventually eval '[ -z "$(job_processes)" ] && [ -z "$(squeue -h)" ]'
        rm up_*
    done
    timeout -k 10 300 "$step/submit.sh" "$OUT/04/train.slurm" >log 2>&1 3>&- &
    eventually test -e up_0 -a -e up_1 -a -e up_2 -a -e up_3
    status=0
    kill -TERM $!
    wait $! || status=$?
    [ "$status" -eq 143 ]
    [[ $(tail -n 1 log) == "job "*": SIGTERM cancels it" ]]
    eventually eval '[ -z "$(job_processes)" ] && [ -z "$(squeue -h)" ]'
}

@test "a rank that never comes is named within the timeout" {
    pretend_train "$(up_before 0 2 3)
[ \$SLURM_PROCID != 1 ] || exec sleep 1000
exec $step/train --model linear --timeout 6 --epochs 1"
    job 1 "$OUT/04/train.slurm"
    # By the first to end at least: then srun ends all.
    echo "$output" | grep -q '^\[rank [023]/4\] fatal: rank 1 of 4 did not come within 6 s'
}
