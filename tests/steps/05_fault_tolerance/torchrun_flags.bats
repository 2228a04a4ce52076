# The flags of torchrun that step 05's ddprun has and step 03's does not.

bats_require_minimum_version 1.5.0
load ../ddprun_helper

DDPRUN=05_fault_tolerance/ddprun

@test "--virtual-local-rank: LOCAL_RANK is 0 for all, each sees the GPU that is its own" {
    local shows='echo $RANK $LOCAL_RANK ${CUDA_VISIBLE_DEVICES-all}'
    [ "$(ddprun --nproc-per-node 2 --virtual-local-rank sh -c "$shows" | sort | tr '\n' ,)" = "0 0 0,1 0 1," ]
    [ "$(CUDA_VISIBLE_DEVICES=5,GPU-7a ddprun --nproc-per-node 2 --virtual sh -c "$shows" | sort | tr '\n' ,)" = "0 0 5,1 0 GPU-7a," ]
    [ "$(PET_VIRTUAL_LOCAL_RANK=1 ddprun sh -c "$shows")" = "0 0 0" ]
    [ "$(PET_VIRTUAL_LOCAL_RANK=0 ddprun sh -c "$shows")" = "0 0 all" ]
    CUDA_VISIBLE_DEVICES=5 run -2 ddprun --nproc-per-node 2 --virtual-local-rank true
    [ "$output" = "ddprun: --virtual-local-rank: CUDA_VISIBLE_DEVICES=5 has fewer GPUs than the 2 ranks of --nproc-per-node" ]
}

@test "--virtual-local-rank: two ranks train" {
    run -0 ddprun --nproc-per-node 2 --virtual-local-rank 03_torchrun_env/train 1 --model linear --device cpu \
        --dataset-size 64 --checkpoint-dir "$OUT/c"
    [ -e "$OUT/c/linear_random.safetensors" ]
}

@test "--local-addr is MASTER_ADDR where no flag names node 0" {
    local host='echo $MASTER_ADDR'
    [ "$(ddprun --local-addr localhost sh -c "$host")" = localhost ]
    [ "$(ddprun --standalone --local-addr 127.0.0.2 sh -c "$host")" = 127.0.0.2 ]
    [ "$(PET_LOCAL_ADDR=127.0.0.2 ddprun sh -c "$host")" = 127.0.0.2 ]
    [ "$(ddprun --master-port 0 --local-addr 127.0.0.2 sh -c "$host")" = 127.0.0.1 ]
    [ "$(ddprun --rdzv-endpoint localhost:0 --local-addr 127.0.0.2 sh -c "$host")" = localhost ]
}

@test "what cannot be started by itself goes to Python: a file of any name, a folder with __main__.py" {
    mkdir "$OUT/folder" "$OUT/bin"
    echo 'import sys; print("python", sys.argv[1:])' | tee "$OUT/folder/__main__.py" >"$OUT/program"
    [ "$(ddprun "$OUT/program" a)" = "python ['a']" ]
    [ "$(ddprun "$OUT/folder" a)" = "python ['a']" ]
    [ "$(cd "$OUT" && "$OLDPWD/05_fault_tolerance/ddprun" folder a)" = "python ['a']" ]
    sed -i '1i #!/usr/bin/env python3' "$OUT/program"
    [ "$(ddprun "$OUT/program")" = "python []" ]
    printf '#!/bin/sh\necho shell\n' >"$OUT/bin/folder" # what is in PATH comes first, as in a shell
    chmod +x "$OUT/bin/folder"
    [ "$(cd "$OUT" && PATH=$OUT/bin:$PATH "$OLDPWD/05_fault_tolerance/ddprun" folder)" = shell ]
}

@test "--run-path: Python runs it by runpy, whatever it is called" {
    printf 'import sys; print(__name__, sys.argv[1:], __spec__)\n' >"$OUT/p.txt"
    [ "$(ddprun --run-path "$OUT/p.txt" a --b)" = "__main__ ['a', '--b'] None" ]
    [ "$(ddprun --run-path --no-python --module "$OUT/p.txt")" = "__main__ [] None" ]
    chmod +x "$OUT/p.txt"
    [ "$(PET_RUN_PATH=1 ddprun "$OUT/p.txt")" = "__main__ [] None" ]
}

@test "--logs-specs default is what there is" {
    [ "$(ddprun --logs-specs default sh -c 'echo $RANK')" = 0 ]
}

@test "--signals-to-handle: these end the job, passed on as they are; another ends the launcher alone" {
    FLAGS="--signals-to-handle SIGUSR2,SIGTERM"
    signalled USR2 'trap "exit 75" USR2; sleep 100'
    [ "$status" -eq 75 ]
    rm "$OUT"/up_*
    PET_SIGNALS_TO_HANDLE="SIGALRM, SIGUSR1" FLAGS='' signalled ALRM 'echo $TORCHELASTIC_SIGNALS_TO_HANDLE; sleep 100'
    [ "$status" -eq 142 ]
    [[ $output == *"SIGALRM, SIGUSR1"*"ddprun: ended by SIGALRM"* ]]
    rm "$OUT"/up_*
    signalled HUP 'sleep 100'
    [ "$status" -eq 129 ]
    [ -z "$output" ]
    await no_process_left
    await swept
}

# its_error: the contents of the launcher's own TORCHELASTIC_ERROR_FILE.
its_error() {
    python3 -c '
import json, sys
error = json.load(open(sys.argv[1]))["message"]
print(error["message"], error["errorCode"], int(error["extraInfo"].pop("timestamp")) > 10**9, error["extraInfo"])' "$OUT/own"
    rm "$OUT/own"
}

@test "whoever started the launcher finds the root cause in its TORCHELASTIC_ERROR_FILE" {
    export TORCHELASTIC_ERROR_FILE=$OUT/own
    local writes='[ $RANK = 0 ] && exec sleep 100; echo "{\"message\": {\"message\": \"ValueError: boom\",
        \"extraInfo\": {\"py_callstack\": \"line 1\", \"timestamp\": \"1700000000\"}}}" >$TORCHELASTIC_ERROR_FILE; exit 9'
    run -9 ddprun --nproc-per-node 2 --log-dir "$OUT/logs" sh -c "$writes" # PyTorch's, as it is
    [ "$(its_error)" = "ValueError: boom 9 True {'py_callstack': 'line 1'}" ]
    run -9 timeout 200 05_fault_tolerance/ddprun --nproc-per-node 2 \
        --log-dir "$OUT/logs" --max-restarts 1 sh -c "$writes"
    [ "$(its_error)" = "ValueError: boom 9 True {'py_callstack': 'line 1'}" ]
    run -137 ddprun sh -c 'kill -KILL $$' # none
    [ "$(its_error)" = "rank 0 was killed by SIGKILL -9 True {}" ]
    run -1 ddprun 03_torchrun_env/train 1 --model linear --device cpu --lr 1000 --checkpoint-dir "$OUT/c" # our own
    [[ $(its_error) == "training diverged: "*" 1 True {}" ]]
    ddprun true
    [ ! -e "$OUT/own" ]
    TORCHELASTIC_ERROR_FILE=$OUT/nowhere/own run -3 ddprun sh -c 'exit 3'
    [[ $output == *"cannot write the error file $OUT/nowhere/own: No such file or directory"* ]]
}

@test "usage errors: one line, status 2" {
    usage_errors <<'EOF'
only_default --logs-specs mine true
SIGFOO_is_no_signal --signals-to-handle SIGTERM,SIGFOO true
SIGKILL_is_no_signal --signals-to-handle SIGKILL true
names_such_as --signals-to-handle , true
must_not_be_empty --signals-to-handle= true
1_to_255_letters --standalone --local-addr=[] true
must_not_be_empty --standalone --local-addr= true
EOF
}

@test "--help lists them" {
    run -0 ddprun --help
    [[ $output == *"--local-addr HOST"*"--run-path"*"--virtual-local-rank"*"--signals-to-handle SIG,..."* ]]
}
