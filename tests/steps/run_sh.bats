#!/usr/bin/env bats
# The run.sh of the steps: their own --help, and their messages where they cannot run.

fails() { # STATUS WORDS COMMAND...: one line on standard error with these words, nothing else
    local wanted=$1 words=$2
    shift 2
    run timeout 200 "$@"
    echo "$output"
    [ "$status" -eq "$wanted" ] && [ "${#lines[@]}" -eq 1 ] && [[ $output == *"$words"* ]]
}

# A PATH with what the scripts need, but without any launcher.
bare_path() {
    mkdir "$BATS_TEST_TMPDIR/bin"
    for command in sh dirname find wc sed id; do
        ln -s "$(command -v $command)" "$BATS_TEST_TMPDIR/bin"
    done
    echo "$BATS_TEST_TMPDIR/bin"
}

@test "--help: first run.sh's own usage, then the program's" {
    for step in 01_single_gpu 02_multi_gpu_spawn 03_torchrun_env 05_fault_tolerance; do
        for arguments in --help -h "--lr 1 --help" "3 --help"; do
            [ "$step" != 01_single_gpu ] || arguments=${arguments#3 }
            run timeout 200 $step/run.sh $arguments
            [ "$status" -eq 0 ]
            [[ ${lines[0]} == "Usage: "*"$step/run.sh "*"[options of train]"* ]]
            [[ $output == *"
Usage: $step/train [total_epochs [save_every]] [options]"*"--batch-size N"* ]]
        done
    done
    STAGE=b run 02_multi_gpu_spawn/run.sh --help
    [[ $output == *"Usage: 02_multi_gpu_spawn/train_b_all_reduce "* ]]
    LAUNCHER=mpirun run 03_torchrun_env/run.sh --help
    [[ $output == *"Usage: 03_torchrun_env/train "* ]]
}

@test "a program that is not built: the usage, and the make that is missing" {
    for step in 01_single_gpu 02_multi_gpu_spawn 03_torchrun_env 05_fault_tolerance; do
        mkdir -p "$BATS_TEST_TMPDIR/$step"
        cp $step/run.sh "$BATS_TEST_TMPDIR/$step"
        fails 1 "run 'make ${step%%_*}' first" "$BATS_TEST_TMPDIR/$step/run.sh" 2
        run "$BATS_TEST_TMPDIR/$step/run.sh" --help
        [ "$status" -eq 1 ]
        [[ ${lines[0]} == "Usage: "* && $output == *"run 'make ${step%%_*}' first" ]]
    done
}

@test "launchers and stages that are not there, ranks that are none: one line" {
    path=$(bare_path)
    for launcher in torchrun mpirun; do
        LAUNCHER=$launcher fails 1 "no $launcher here: see 'make doctor'" \
            env PATH="$path" 03_torchrun_env/run.sh 2
        LAUNCHER=$launcher fails 1 "no $launcher here: see 'make doctor'" \
            env PATH="$path" 05_fault_tolerance/run.sh 2
    done
    LAUNCHER=srun fails 2 "it is ddprun, torchrun or mpirun" 03_torchrun_env/run.sh
    STAGE=d fails 2 "it is a, b, c or not set" 02_multi_gpu_spawn/run.sh
    LAUNCHER=mpirum fails 2 "it is ddprun, torchrun, mpirun or srun" 05_fault_tolerance/run.sh
    MAX_RESTARTS=-1 fails 2 "it is a number from 0 on" 05_fault_tolerance/run.sh
    for ranks in 0 000 two 1.5; do
        refused="the number of ranks must be a whole number from 1 on, not \"$ranks\""
        for launcher in ddprun torchrun mpirun; do
            LAUNCHER=$launcher fails 2 "$refused" 03_torchrun_env/run.sh $ranks
            LAUNCHER=$launcher fails 2 "$refused" 05_fault_tolerance/run.sh $ranks
        done
        fails 2 "$refused" 02_multi_gpu_spawn/run.sh $ranks
        fails 2 "must be whole numbers from 1 on" 04_slurm_multinode/run.sh $ranks
        fails 2 "must be whole numbers from 1 on" 04_slurm_multinode/run.sh 2 $ranks --epochs 1
    done
    fails 2 '"two" has no place here' 01_single_gpu/run.sh two
    for ranks in 1025 99999999999999999999; do
        fails 2 "from 1 to 1024" 03_torchrun_env/run.sh $ranks
        fails 2 "from 1 to 1024" 02_multi_gpu_spawn/run.sh $ranks
    done
}

@test "mpirun's ranks get nothing of an outer job that run.sh replaces" {
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\nexec printenv\n' >"$BATS_TEST_TMPDIR/bin/mpirun"
    chmod +x "$BATS_TEST_TMPDIR/bin/mpirun"
    for command in 03_torchrun_env/run.sh 05_fault_tolerance/run.sh "04_slurm_multinode/nodes_here.sh 1"; do
        run env PATH="$BATS_TEST_TMPDIR/bin:$PATH" LAUNCHER=mpirun RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=0 \
            MASTER_ADDR=192.0.2.1 MASTER_PORT=1 TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=outer \
            TORCHELASTIC_ERROR_FILE=/outer $command 2 true
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *MASTER_ADDR=* ]]
        ! grep '^LOCAL_\|^RANK=\|^WORLD_SIZE=\|^GROUP_RANK=\|=192.0.2.1\|^MASTER_PORT=1$\|USE_AGENT_STORE\|=/*outer$' <<<"$output" || false
    done
}

@test "--help into a full disk is a failure" {
    for script in 01_single_gpu/run.sh 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh data/get_mnist.sh; do
        run sh -c '"$0" --help >/dev/full' $script
        [ "$status" -ne 0 ]
        [ "${#lines[@]}" -eq 1 ]
    done
}

@test "no place for the secret: the line names it and the way out, before a rank starts" {
    grep -q 'ddp secret' 03_torchrun_env/train || skip "built without extras/secret"
    mkdir "$BATS_TEST_TMPDIR/fake"
    printf '#!/bin/sh\necho a rank starts\n' >"$BATS_TEST_TMPDIR/fake/mpirun"
    chmod +x "$BATS_TEST_TMPDIR/fake/mpirun"
    export PATH=$BATS_TEST_TMPDIR/fake:$PATH LAUNCHER=mpirun TMPDIR=$BATS_TEST_TMPDIR/gone
    unset DDP_SECRET_FILE
    for script in "03_torchrun_env/run.sh 2" "05_fault_tolerance/run.sh 2" "04_slurm_multinode/nodes_here.sh 2 1 true"; do
        fails 1 "cannot write the job's secret into $TMPDIR: set TMPDIR to a folder with room, or DDP_SECRET_FILE to a file of yours" $script
    done
    # A disk that is full: no file may grow.
    mkdir "$TMPDIR"
    fails 1 "cannot write the job's secret into $TMPDIR: set" sh -c 'trap "" XFSZ; ulimit -f 0; exec 03_torchrun_env/run.sh 2'
    [ -z "$(ls -A "$TMPDIR")" ]
    HOME=$BATS_TEST_TMPDIR/away PBS_JOBID=7 here=03_torchrun_env fails 1 \
        "cannot write the job's secret to $BATS_TEST_TMPDIR/away/.ddp_secret_7 (is HOME read-only or full here?): set HOME to" \
        sh -c 'set -eu; . 04_slurm_multinode/job_start.sh; echo goes on'
}

# hydra TEXT: an mpirun in PATH that speaks MPICH's language, and says TEXT when asked for its version.
hydra() {
    mkdir -p "$BATS_TEST_TMPDIR/hydra"
    printf '#!/bin/sh\n[ "$1" != --version ] || { echo "%s" && exit; }\n' "$1" >"$BATS_TEST_TMPDIR/hydra/mpirun"
    cat >>"$BATS_TEST_TMPDIR/hydra/mpirun" <<'END'
[ "${0##*/} $I_MPI_PIN $1" = "mpiexec off -n" ] || { echo "$0: I_MPI_PIN is $I_MPI_PIN, unrecognized argument $1" >&2 && exit 255; }
export PMI_SIZE=$2 MPI_LOCALNRANKS=$2 PMI_RANK=0 status=0
shift 2
while [ $PMI_RANK -lt $PMI_SIZE ]; do
    MPI_LOCALRANKID=$PMI_RANK "$@" &
    ranks="${ranks:-} $!" PMI_RANK=$((PMI_RANK + 1))
done
for rank in $ranks; do wait $rank || status=$?; done
exit $status
END
    chmod +x "$BATS_TEST_TMPDIR/hydra/mpirun"
    ln -sf mpirun "$BATS_TEST_TMPDIR/hydra/mpiexec"
}

@test "the mpirun of MPICH and of Intel MPI: its own flags, and its variables become the five" {
    options="--model linear --epochs 1 --threads 1 --checkpoint-dir $BATS_TEST_TMPDIR/c"
    trained() { grep '^Train Epoch\|^Test Epoch' <<<"$output"; }
    for version in "HYDRA build details:" "Intel(R) MPI Library for Linux* OS, Version 2021.19 Build 20260330"; do
        hydra "$version"
        for step in 03_torchrun_env 05_fault_tolerance; do
            rm -rf "$BATS_TEST_TMPDIR/c"
            run timeout 200 $step/run.sh 2 $options
            [ "$status" -eq 0 ] && expected=$(trained)
            rm -rf "$BATS_TEST_TMPDIR/c"
            run env PATH="$BATS_TEST_TMPDIR/hydra:$PATH" LAUNCHER=mpirun OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=9 \
                OMPI_COMM_WORLD_LOCAL_RANK=7 timeout 200 $step/run.sh 2 $options
            echo "$output"
            [ "$status" -eq 0 ]
            [ "$(trained)" = "$expected" ]
        done
        run env PATH="$BATS_TEST_TMPDIR/hydra:$PATH" LAUNCHER=mpirun timeout 200 04_slurm_multinode/nodes_here.sh 2 1 \
            04_slurm_multinode/train $options
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"rank from PMI_RANK"* ]]
    done
    mkdir "$BATS_TEST_TMPDIR/step"
    cp 03_torchrun_env/run.sh 03_torchrun_env/mpirun.sh "$BATS_TEST_TMPDIR/step"
    printf '#!/bin/sh\necho $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE\n' | tee "$BATS_TEST_TMPDIR/step/ddprun" >"$BATS_TEST_TMPDIR/step/train"
    chmod +x "$BATS_TEST_TMPDIR/step/train" "$BATS_TEST_TMPDIR/step/ddprun"
    run env PATH="$BATS_TEST_TMPDIR/hydra:$PATH" LAUNCHER=mpirun "$BATS_TEST_TMPDIR/step/run.sh" 2
    [ "$(sort <<<"$output")" = "0 2 0 2
1 2 1 2" ]
    run 03_torchrun_env/mpirun.sh 2
    [ "$status" -eq 2 ]
    [[ $output == "Usage: "* ]]
}
