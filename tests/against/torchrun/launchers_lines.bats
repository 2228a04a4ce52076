# Command lines under torchrun, and under ddprun of steps 03 and 05: the same output, or all three refuse.

load launchers_helper

# What the lines below start: a program in a file, in a folder, and one that is not Python's.
setup_programs() {
    mkdir "$OUT/folder"
    cat >"$OUT/folder/__main__.py" <<'END'
import os, sys
names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "ROLE_NAME", "TORCHELASTIC_MAX_RESTARTS", "CUDA_VISIBLE_DEVICES"
values = [os.environ.get(name, "-") for name in names]
signals = os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"].replace("SIGTERM,SIGINT,SIGHUP,SIGQUIT", "usual")
sys.stdout.write(" ".join([*values, signals, *sys.argv[1:]]) + "\n") # in one write: ranks share a pipe
END
    cp "$OUT/folder/__main__.py" "$OUT/program.py"
    cp "$OUT/folder/__main__.py" "$OUT/program"
    echo 'echo "shell $RANK $*"' >"$OUT/program.sh"
}

# See launchers_lines.py.
lines() {
    cat <<'END'
--nproc-per-node 2 program.py a --nproc-per-node b
--nproc_per_node=2 program.py a
NOT 03: --nproc_per_node=2 program a
NOT 03: --nproc-p 2 folder a
--standalone --nnodes=1 --nproc-per-node 2 program.py
--redirect=3 program.py
--redirect 0 --te 0 program.py
--no-py --log-l x: sh program.sh a
--max-r 0 --monitor-i 1 --rol r program.py
NOT 03: --run-path program a
NOT 03: --run-path --no-python --module program.py a
NOT 03: PET_RUN_PATH=1 program
NOT 03: --logs-specs default program.py
NOT 03: --signals-to-handle SIGTERM,SIGUSR1,SIGUSR2 program.py
NOT 03: PET_SIGNALS_TO_HANDLE=SIGTERM program.py
NOT 03: --virtual-local-rank --nproc-per-node 2 program.py
NOT 03: PET_VIRTUAL_LOCAL_RANK=1 PET_NPROC_PER_NODE=2 program.py
NOT 03: CUDA_VISIBLE_DEVICES=4,7 --virtual-local-rank --nproc-per-node 2 program.py
NOT 03: --local-addr 127.0.0.1 --role r program.py
NOT 03: PET_LOCAL_ADDR=127.0.0.1 --rol r program.py
PET_ROLE=r PET_NPROC_PER_NODE=2 program.py
NOT 03: --max-restarts 3 program.py
REFUSED: --m 0 program.py
REFUSED: --n 2 program.py
REFUSED: --nprocs 2 program.py
REFUSED: --logs-specs mine program.py
REFUSED: --signals-to-handle SIGKILL program.py
REFUSED: CUDA_VISIBLE_DEVICES=4 --virtual-local-rank --nproc-per-node 2 program.py
REFUSED: --no-python --module program.py
REFUSED: nothing.py
END
}

@test "flags, their variables and their beginnings, programs of every kind" {
    setup_programs
    lines | timeout -k 20 400 "$TORCH/python" tests/against/torchrun/launchers_lines.py "$OUT" 03_torchrun_env/ddprun 05_fault_tolerance/ddprun
}

@test "every flag of torchrun's --help is one of step 05's ddprun" {
    "$TORCH/python" -c '
from torch.distributed.run import get_args_parser
print("\n".join(name for action in get_args_parser()._actions for name in action.option_strings))' >"$OUT/flags"
    [ "$(wc -l <"$OUT/flags")" -ge 60 ] && grep -qx -e --numa_binding "$OUT/flags"
    while read -r flag; do # without its value or a program
        run timeout 60 05_fault_tolerance/ddprun "$flag" 3>&-
        [[ $output != *"unknown flag"* ]] || { echo "$flag: $output" && false; }
    done <"$OUT/flags"
}

# signal_line LAUNCHER ARGUMENTS...: how its report names the signal that killed a rank; the process is N.
signal_line() {
    run -"$1" timeout -k 20 400 "${@:2}" --no-python python3 -c 'import os; os.kill(os.getpid(), 11)'
    grep -o 'Signal [0-9]* (SIG[A-Z]*) received by PID [0-9]*' <<<"$output" | sort -u | sed 's/PID .*/PID N/'
}

@test "the report names a signal in torchrun's words" {
    theirs=$(signal_line 1 "$TORCH/torchrun" --log-dir "$OUT/logs")
    [ "$theirs" = "Signal 11 (SIGSEGV) received by PID N" ]
    [ "$(signal_line 139 03_torchrun_env/ddprun)" = "$theirs" ]
}

# one_endpoint FIRST SECOND: two nodes, of which each has another launcher, at one endpoint of torchrun's c10d kind.
one_endpoint() {
    local endpoint
    endpoint="--nnodes 2 --rdzv-backend c10d --rdzv-endpoint localhost:$(free_port)"
    timeout -k 20 400 $1 --log-dir "$OUT/logs" $endpoint --no-python sh -c true >"$OUT/first" 2>&1 3>&- &
    local first=$!
    until (exec 3<>"/dev/tcp/127.0.0.1/${endpoint##*:}") 2>"$OUT/refused"; do sleep 0.1; done # it serves the endpoint
    run -1 timeout -k 20 400 $2 --log-dir "$OUT/logs" $endpoint --no-python sh -c true
    kill "$first" && wait "$first" || true
}

@test "torchrun and ddprun at one endpoint of nodes that come and go: the second is told so" {
    one_endpoint 05_fault_tolerance/ddprun "$TORCH/torchrun"
    [[ $output == *"this is the rendezvous of ddprun, start ddprun or torchrun on all nodes"* ]]
    one_endpoint "$TORCH/torchrun" 05_fault_tolerance/ddprun
    [[ $output == "ddprun: fatal: the rendezvous at localhost:"*" is torchrun's: start ddprun or torchrun on all nodes" ]]
}
