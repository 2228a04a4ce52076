#!/usr/bin/env bats
# Jobs of step 05 on a real Slurm: their time ends, they go back into the queue, and nothing is lost.

load slurm_helper

setup_file() {
    need_slurm
    export DDP_CLUSTER_DIR=$BATS_FILE_TMPDIR/cluster
    $cluster up 3>&-
    options="--model linear --epochs 4000 --momentum 0.9 --save-every 0 --timeout 200 --log-interval 1000000"
    export options
    timeout 600 04_slurm_multinode/nodes_here.sh 1 4 05_fault_tolerance/train $options \
        --checkpoint-dir "$BATS_FILE_TMPDIR/straight" >/dev/null 2>&1 3>&-
}

teardown_file() {
    [ ! -e "$DDP_CLUSTER_DIR" ] || $cluster down
}

setup() {
    need_slurm
    eval "$($cluster env)"
    export OUT=$BATS_TEST_TMPDIR
    cd "$OUT"
    step=$repository/05_fault_tolerance
}

state() { # empty where a busy controller does not answer
    scontrol show job "$job" | sed -n "s/.* *$1=\([^ ]*\).*/\1/p"
}

is_done() {
    case $(state JobState) in '' | PENDING | RUNNING | COMPLETING | CONFIGURING | REQUEUED) return 1 ;; esac
}

restarted() { # TIMES
    local restarts
    restarts=$(state Restarts)
    [ "${restarts:-0}" -ge "$1" ]
}

started_again() { # TIMES
    restarted "$1" && [ "$(grep -c 'resumes from checkpoints/' log)" -ge "$1" ]
}

started_again_or_done() {
    started_again 1 || is_done
}

# The file of the job is that of a run that nothing happened to.
same_as_undisturbed() {
    cmp "$BATS_FILE_TMPDIR/straight/linear_random.safetensors" checkpoints/linear_random.safetensors
}

@test "sbatch takes the script; shellcheck, too" {
    sbatch --test-only "$step/train.slurm"
    ! command -v shellcheck >/dev/null || shellcheck "$step"/*.sh "$step/train.slurm"
}

@test "before its time is up, the job stops, goes back into the queue and on" {
    # Slurm looks at the clock, and for jobs that wait, every half a minute.
    # On a busy machine its message to a node may time out: then the job has no signal, and is ended.
    for _ in 1 2 3; do
        rm -rf log checkpoints
        job=$(sbatch --parsable --output=log --error=log --time=1 --signal=USR1@50 "$step/train.slurm" $options --epochs 1000000)
        eventually started_again_or_done
        is_done || break
    done
    grep -q 'SIGUSR1: all ranks stop after the next step' log
    grep -q 'stopped after step [0-9]*: the same command resumes' log
    eventually restarted 1 # or more, if this looks late
    scancel "$job"
    eventually is_done
    [ -z "$(job_processes)" ]
}

@test "told to stop, and requeued by hand, the job ends with the bytes of one that never was" {
    job=$(sbatch --parsable --output=log --error=log "$step/train.slurm" $options --save-every-steps 2000)
    eventually grep -qs 'snapshot saved' log
    scancel --signal=USR1 "$job" # to the ranks, as at the end of its time
    eventually started_again 1
    scontrol requeue "$job"
    eventually started_again 2
    eventually is_done
    cat log
    [ "$(state JobState)" = COMPLETED ]
    same_as_undisturbed
}

@test "a task of an array that is told to stop is requeued alone, and resumes from its own folder" {
    array=$(sbatch --parsable --array=1-2 --nodes=1 --output=log_%a --error=log_%a "$step/train.slurm" $options \
        --epochs 20000 --save-every-steps 2000)
    for task in 1 2; do eventually grep -qs 'snapshot saved' log_$task; done
    scancel --signal=USR1 "${array}_2" # this number is the array's, too: the last task has it
    job=${array}_2
    eventually restarted 1
    eventually grep -q 'resumes from checkpoints/task_2/' log_2
    for job in "${array}_1" "${array}_2"; do
        eventually is_done
        [ "$(state JobState)" = COMPLETED ]
    done
    ! grep 'resumes from' log_1 || false
    [ -e checkpoints/task_1/linear_random.safetensors ]
    [ -e checkpoints/task_2/linear_random.safetensors ]
}

@test "a rank that is killed: the ranks start again within the job" {
    job=$(sbatch --parsable --output=log --error=log "$step/train.slurm" $options --save-every-steps 2000)
    eventually grep -qs 'snapshot saved' log
    kill -KILL "$(job_processes | cut -d / -f 3 | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != train ] || echo "$pid"; done | head -n 1)"
    eventually is_done
    cat log
    grep -q 'restart 1 of 3' log
    [ "$(state JobState)" = COMPLETED ]
    [ "$(state Restarts)" -eq 0 ]
    same_as_undisturbed
}

@test "run.sh shows a job that is requeued to its end" {
    LAUNCHER=srun timeout 500 "$step/run.sh" 2 $options --epochs 40000 --save-every-steps 5000 >shown 2>&1 3>&- &
    eventually grep -qs 'snapshot saved' shown
    job=$(sed -n 's/^job \([0-9]*\): .*/\1/p' shown)
    scancel --signal=USR1 "$job"
    status=0
    wait $! || status=$?
    cat shown
    [ "$status" -eq 0 ]
    grep -q 'resumes from checkpoints/' shown
    grep -q 'checkpoint saved at checkpoints/linear_random' shown
}
