# The launcher: the ranks' environment, and its command line.

bats_require_minimum_version 1.5.0
load ddprun_helper

@test "a rank finds torchrun's whole environment" {
    run ddprun --role trainer --rdzv-id job7 --master-port "$(free_port)" \
        sh -c 'env | grep -E "^(RANK|LOCAL_|WORLD_|GROUP_|ROLE_|MASTER_|TORCHELASTIC_|TORCH_NCCL_|OMP_NUM)" |
               sed "s/^MASTER_PORT=[0-9]*$/MASTER_PORT=N/; s/job7_.*att/job7_X\/att/" | sort'
    [ "$status" -eq 0 ]
    diff - <(echo "$output" | grep -v '^OMP_NUM_THREADS=[1-9][0-9]*$') <<EOF
GROUP_RANK=0
GROUP_WORLD_SIZE=1
LOCAL_RANK=0
LOCAL_WORLD_SIZE=1
MASTER_ADDR=127.0.0.1
MASTER_PORT=N
RANK=0
ROLE_NAME=trainer
ROLE_RANK=0
ROLE_WORLD_SIZE=1
TORCHELASTIC_ERROR_FILE=$TMPDIR/job7_X/attempt_0/0/error.json
TORCHELASTIC_MAX_RESTARTS=0
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_RUN_ID=job7
TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT
TORCHELASTIC_USE_AGENT_STORE=True
TORCH_NCCL_ASYNC_ERROR_HANDLING=1
WORLD_SIZE=1
EOF
}

@test "three ranks are told apart" {
    run ddprun --nproc-per-node 3 sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE \
        $ROLE_RANK/$ROLE_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $(basename "$(dirname "$TORCHELASTIC_ERROR_FILE")")'
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | sort)" = "0/3 0/3 0/3 0/1 0
1/3 1/3 1/3 0/1 1
2/3 2/3 2/3 0/1 2" ]
}

@test "threads: the cores are shared out, unless OMP_NUM_THREADS is set, or one rank has them all" {
    [ "$(ddprun sh -c 'echo ${OMP_NUM_THREADS-unset}')" = unset ]
    [ "$(taskset -c 0 timeout 200 03_torchrun_env/ddprun --nproc-per-node 2 sh -c 'echo $OMP_NUM_THREADS' | sort -u)" = 1 ]
    [ "$(OMP_NUM_THREADS=7 ddprun sh -c 'echo $OMP_NUM_THREADS')" = 7 ]
    [ "$(ddprun --nproc-per-node 4 sh -c 'echo $OMP_NUM_THREADS' | sort -u | wc -l)" = 1 ]
}

@test "cores that OpenMP would bind all ranks to: they do without, and so a line says" {
    has_extras || skip "this build has no extras"
    asks() { # VARIABLE=VALUE [OPTIONS...]
        run env "$1" timeout 200 05_fault_tolerance/ddprun "${@:2}" --no-python sh -c "echo \${${1%=*}-unset}"
        echo "$output"
    }
    for setting in OMP_PROC_BIND=true OMP_PLACES=cores GOMP_CPU_AFFINITY=0-1; do
        asks $setting --nproc-per-node 2
        [ "${lines[0]}" = "ddprun: warning: $setting binds all 2 ranks here to the same cores: unset it" ]
        [ "${lines[*]:1}" = "unset unset" ]
        asks $setting --nproc-per-node 1
        [ "$output" = "${setting#*=}" ]
    done
    asks OMP_PROC_BIND=FALSE --nproc-per-node 2
    [ "${lines[*]}" = "FALSE FALSE" ]
    asks OMP_PROC_BIND=true --nproc-per-node 2 --numa-binding node # gives each rank cores of its own, if there are two nodes
    [[ $output != *"binds all"* ]]
    run env OMP_PROC_BIND=close 02_multi_gpu_spawn/train --nproc 2 --model linear --max-steps 1 --checkpoint-dir "$OUT" # has bound itself already
    [[ $output == *"OMP_PROC_BIND=close binds all 2 ranks here to the same cores: unset it"* ]]

    # torchrun is bound itself, and so are the ranks that it starts: here a shell has one core
    warned() { # CORES VARIABLE=VALUE [LOCAL_RANK]
        taskset -c "$1" sh -c 'env RANK='"${3:-0}"' WORLD_SIZE=2 LOCAL_RANK='"${3:-0}"' LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 \
            MASTER_PORT=1 "$1" timeout 200 03_torchrun_env/train --timeout 0.1 2>&1; :' - "$2" | grep -c "warning: $2 binds all 2 ranks here"
    }
    [ "$(warned 0 OMP_PROC_BIND=false)" = 0 ]
    [ "$(warned 0 OMP_PROC_BIND=true 1)" = 0 ] # rank 0 has the line
    [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] || return 0
    for setting in OMP_PROC_BIND=true OMP_PLACES=cores GOMP_CPU_AFFINITY=0; do
        [ "$(warned 0 $setting)" = 1 ]
    done
    [ "$(taskset -c 0,1 env -u OMP_NUM_THREADS nproc)" -eq 1 ] || [ "$(warned 0,1 OMP_PLACES='{0,1}')" = 0 ]
}

@test "arguments arrive as they were typed" {
    run ddprun -- printf '<%s>' 'a b' "it's" '' '"' '$HOME' '*' --nproc-per-node -t
    [ "$status" -eq 0 ]
    [ "$output" = "<a b><it's><><\"><\$HOME><*><--nproc-per-node><-t>" ]
}

@test "flags: both spellings, with = or without, the last one counts; variables stand in" {
    local count='echo $WORLD_SIZE'
    [ "$(ddprun --nproc-per-node 2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(ddprun --nproc_per_node=2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(ddprun --nproc-per_node 4 --nproc-per-node=2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(PET_NPROC_PER_NODE=2 ddprun sh -c "$count" | wc -l)" = 2 ]
    [ "$(PET_NPROC_PER_NODE=2 ddprun --nproc-per-node 3 sh -c "$count" | wc -l)" = 3 ]
    [ "$(PET_NNODES=1:1 PET_ROLE=r ddprun sh -c 'echo $ROLE_NAME')" = r ]
    [ "$(ddprun --standalone --max-restarts 0 --monitor-interval 1 --start-method spawn \
        --event-log-handler=null --rdzv-conf timeout=60 --rdzv-backend c10d \
        --rdzv-endpoint localhost:0 --nnodes=1:1 sh -c "$count")" = 1 ]
}

@test "the beginning of a flag will do where no other flag begins so" {
    local count='echo $WORLD_SIZE'
    [ "$(ddprun --nproc 2 sh -c "$count" | wc -l)" = 2 ]
    [ "$(ddprun --stan --nproc_per=2 --max-r 0 sh -c "$count" | wc -l)" = 2 ]
    [[ $(ddprun --log-d "$OUT/logs" sh -c 'echo $TORCHELASTIC_ERROR_FILE') == "$OUT/logs/"* ]]
    [[ $(ddprun --ro a --role-na b sh -c true 2>&1) == "ddprun: unknown flag --role-na"* ]]
    [[ $(ddprun --he) == "Usage: ddprun "* ]]
}

@test "the number of ranks: cpu counts cores, auto too where there are no GPUs" {
    local count='echo $WORLD_SIZE'
    [ "$(taskset -c 0 timeout 200 03_torchrun_env/ddprun --nproc-per-node cpu sh -c "$count")" = 1 ]
    [ "$(CUDA_VISIBLE_DEVICES= taskset -c 0 timeout 200 03_torchrun_env/ddprun \
        --nproc-per-node auto sh -c "$count")" = 1 ]
}

@test "Python files and modules run unbuffered under python3; --no-python starts them as they are" {
    printf '#!/bin/sh\necho shell\n' > "$OUT/p.py"
    chmod +x "$OUT/p.py"
    [ "$(ddprun --no-python "$OUT/p.py")" = shell ]
    echo 'import sys; print("python", sys.stdout.write_through, sys.argv[1:])' > "$OUT/p.py"
    [ "$(ddprun "$OUT/p.py" a 'b c')" = "python True ['a', 'b c']" ]
    [ "$(PYTHONPATH=$OUT ddprun -m p x)" = "python True ['x']" ]
}

@test "--pass-local-rank puts --local-rank before the arguments" {
    run ddprun --nproc-per-node 2 --pass-local-rank echo a
    [ "$status" -eq 0 ]
    [ "$(echo "$output" | sort)" = "--local-rank=0 a
--local-rank=1 a" ]
}

@test "the store is served before the first rank starts" {
    run ddprun python3 -c '
import os, socket, struct
s = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
s.sendall(struct.pack("<BIBI", 0, 0x3C85F7CE, 13, 4711))
print(struct.unpack("<I", s.recv(4))[0])'
    [ "$output" = 4711 ]
}

@test "only local rank 0 has the launcher's standard input" {
    [ "$(echo hello | ddprun --nproc-per-node 2 sh -c '[ $RANK = 1 ] || sleep 0.2; echo $RANK $(cat)' | sort)" = "0 hello
1" ]
}

@test "usage errors: one line, status 2" {
    usage_errors <<'EOF'
which_program
unknown_flag --nope true
unknown_flag -x true
unknown_flag --nprocs 2 true
--nproc-per-node_or_--nnodes --n 2 true
--master-addr_or_--master-port --master- 1 true
needs_a_value --nproc-per-node
takes_no_value --standalone=1 true
from_1_to --nproc-per-node 0 true
from_1_to --nproc-per-node 2x true
from_1_to --nproc-per-node 99999999999999999999 true
from_1_to --nnodes 0 true
from_1_to --nnodes 2:x true
step_05's --nnodes 1:2 true
step_05's --max-restarts 1 true
step_05's --run-path program
step_05's --virtual-local-rank true
step_05's --signals-to-handle SIGTERM true
step_05's --logs-specs default true
step_05's --local-ad localhost true
whole_number --max-restarts x true
whole_number --node-rank 1 true
whole_number --nnodes 2 --node-rank 2 true
whole_number --master-port 65536 true
several_nodes_must_agree --nnodes 2 --master-port 0 true
--master-port --nnodes 2 --rdzv-backend c10d true
step_05's_ddprun --nnodes 2 --rdzv-backend c10d true
--node-rank --rdzv-backend etcd true
one_node --standalone --nnodes 2 true
must_not_be_empty --rdzv-endpoint= true
HOST:PORT --rdzv-endpoint :1 true
HOST:PORT --rdzv-endpoint host:port true
must_not_be_empty --master-addr= true
name_or_an_address --master-addr=[] true
name_or_an_address --nnodes 2 --master-addr tcp://node1 true
name_or_an_address --master-addr node1:29500 true
name_or_an_address --master-addr node1,node2 true
HOST:PORT --rdzv-endpoint tcp://node1:29500 true
and_no_/ --rdzv-id a/b true
KEY=VALUE --rdzv-conf timeout true
a_number_from_0_to_1000000,_not --rdzv-conf timeout=x true
is_no_setting --rdzv-conf timeuot=5 true
is_no_setting --rdzv-conf read_timeout=60 true
no_effect_on_fixed_nodes --nnodes 2 --rdzv-conf last_call_timeout=1 true
no_effect_on_fixed_nodes --nnodes 2 --rdzv-conf timeout=9,is_host=1 true
a_number_from_0.01_to --monitor-interval 0 true
a_number_from_0_to --shutdown-timeout -1 true
exclude_each_other -m --no-python true
EOF
}

@test "a variable of a flag that only step 05 has" {
    PET_RUN_PATH=1 run -2 ddprun true
    [ "$output" = "ddprun: --run-path: only step 05's ddprun has this flag, and its PET_ variable" ]
    [ "$(PET_RUN_PATH=0 PET_LOCAL_ADDR= ddprun sh -c 'echo $RANK')" = 0 ] # off
}

@test "a flag of an extra that this build does not have, and its variable" {
    ! has_extras || skip "this build has extras"
    run -2 ddprun --tee 3 true
    [ "$output" = "ddprun: --tee is in extras/, which this build does not have" ]
    PET_REDIRECTS=3 run -2 ddprun true
    [ "$output" = "ddprun: --redirects is in extras/, which this build does not have" ]
    [[ $(ddprun --help) != *--tee* ]]
}

@test "several of it under mpirun or srun would be several jobs" {
    OMPI_COMM_WORLD_SIZE=2 run -2 ddprun true
    [ "$output" = "ddprun: mpirun has started several launchers, each for a job of its own: let run.sh start it (LAUNCHER=mpirun before it), or say --nnodes" ]
    OMPI_COMM_WORLD_SIZE=1 ddprun true
    PMI_SIZE=2 run -2 ddprun true
    [[ $output == "ddprun: mpirun has started several launchers"* ]]
    SLURM_STEP_NUM_TASKS=2 run -2 ddprun true
    [ "$output" = "ddprun: srun has started several launchers, each for a job of its own: let run.sh start it (LAUNCHER=srun before it), or say --nnodes" ]
    SLURM_STEP_NUM_TASKS=2 SLURM_PTY_PORT=7 ddprun true # in the one shell of srun --pty
}

@test "--nproc-per-node gpu where there is none" {
    CUDA_VISIBLE_DEVICES= run -2 ddprun --nproc-per-node gpu true
    [[ $output == *"shows no GPU"* ]]
}

@test "--help teaches what this step knows" {
    run -0 ddprun --help
    [[ $output == *"seconds from SIGTERM to SIGKILL (30)"* ]] # and what is so where nothing is said
    [[ $output == *LOCAL_RANK*--nproc-per-node*--nnodes* && $output != *--max-restarts* ]]
    local width
    width=$(echo "$output" | awk '{ if (length > n) n = length } END { print n }')
    [ "$width" -le 100 ]
}
