# Shared by the tests of launchers: PyTorch's programs, jobs of one and of two nodes, their losses.

bats_require_minimum_version 1.5.0
load ../../helpers/free_port

setup_file() {
    TORCH=${TORCH_BIN-$("${BATS_TEST_DIRNAME%/*}/torch/venv.sh" || true)} # make check-torch asks once for all
    export TORCH
}

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}"
    OUT=$BATS_TEST_TMPDIR
    export OUT TMPDIR=$OUT/tmp TORCHINDUCTOR_CACHE_DIR=$OUT/inductor
    export PET_SHUTDOWN_TIMEOUT=5 # of both launchers: in a test that fails, ranks may hang
    mkdir "$TMPDIR"
    unset OMP_NUM_THREADS RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT "${!TORCHELASTIC@}"
    [ -n "$TORCH" ] || skip "no PyTorch on this machine"
    PATH=$TORCH:$PATH
}

# After every test: nothing is left in the folder for temporary files, nor a process with this
# test's mark.
teardown() {
    local pids
    for _ in $(seq 1000); do
        pids=$(left_over)
        [ -n "$pids" ] || break
        sleep 0.05
    done
    [ -z "$pids" ] || { echo "left behind:" $pids && kill -KILL $pids && false; } &&
        [ -z "$(ls -A "$TMPDIR")" ]
}

# OUT is unique, and in the environment of all that a test starts; but not of this grep.
left_over() {
    local mark=OUT=$OUT
    (unset OUT && grep -lsxz "$mark" /proc/[0-9]*/environ | tr -dc '0-9\n')
}

torchrun() {
    timeout -k 20 400 "$TORCH/torchrun" --log-dir "$OUT/torchrun" "$@"
}

ddprun() {
    timeout -k 20 400 03_torchrun_env/ddprun "$@"
}

# The first steps of a model. Those of cnn are on digits, and few, because there are 2 cores.
train_options() {
    case $1 in
    linear) echo --model linear --max-steps 8 ;;
    cnn) echo --model cnn --max-steps 4 --batch-size 16 ;;
    esac
    echo --epochs 1 --log-interval 1 --dropout off --checkpoint-dir "$OUT/checkpoints"
}

# losses FILE: the lines that hold numbers.
losses() {
    grep -E '^(Train|Test) Epoch|^Epoch .* Loss' "$1"
}

# under_ddprun MODEL RANKS: losses of the same training under one ddprun.
under_ddprun() {
    ddprun --nproc-per-node "$2" 03_torchrun_env/train $(train_options "$1") > "$OUT/$1_$2" 2> /dev/null
    losses "$OUT/$1_$2" > "$OUT/expected"
    [ "$(grep -c '^Train' "$OUT/expected")" -ge 4 ]
    cat "$OUT/expected"
}

# node N COMMAND...: its output to $OUT/node_N and node_N.err, the time of its end to ended_N.
node() {
    local number=$1 status=0
    shift
    "$@" > "$OUT/node_$number" 2> "$OUT/node_$number.err" 3>&- || status=$?
    date +%s > "$OUT/ended_$number"
    [ $status -eq 0 ] || tail -n 20 "$OUT/node_$number.err" # for those who want to know why
    return $status
}

# two_agents "LAUNCHER0 FLAGS" "LAUNCHER1 FLAGS" PROGRAM...: both at once; statuses to status_N.
two_agents() {
    local agent_0=$1 agent_1=$2
    shift 2
    status_0=0 status_1=0
    node 1 $agent_1 --nnodes 2 --no-python "$@" &
    node 0 $agent_0 --nnodes 2 --no-python "$@" || status_0=$?
    wait $! || status_1=$?
    tail -n 20 "$OUT"/node_*
}

# The same, as the nodes of a job whose launchers know from the start which is first.
two_nodes() {
    local node_0=$1 node_1=$2 master
    master="--master-addr 127.0.0.1 --master-port $(free_port)"
    shift 2
    two_agents "$node_0 $master --node-rank 0" "$node_1 $master --node-rank 1" "$@"
}
