# The report of a failed job: the first failure, and how the other ranks ended.

bats_require_minimum_version 1.5.0
load ../../steps/ddprun_helper

@test "the report names the first to fail, and what it had to say" {
    run -9 ddprun --nproc-per-node 3 --log-dir "$OUT/logs" -r 2:3 sh -c '
        case $RANK in
        0) sleep 100; exit 1 ;;
        1) exec sleep 100 ;;
        2) echo "{\"message\": {\"message\": \"ValueError: boom\", \"extraInfo\": {}}}" > $TORCHELASTIC_ERROR_FILE
           exit 9 ;;
        esac'
    [[ $output == *"sh FAILED: ValueError: boom"*"Root cause"*"node    : 0 $(uname -n)"*"rank    : 2 (local_rank: 2, pid: "* ]]
    [[ $output == *"ended   : exit status 9"*"message : ValueError: boom"* ]]
    [[ $output == *"log     : $OUT/logs/"*"/attempt_0/2/stderr.log"* ]]
    [[ $output == *"rank 0 (local_rank: 0, pid: "*": killed by SIGTERM, told to end by ddprun"* ]]
    [[ $output == *"rank 1 "* && $output != *"  rank 2 "* ]]
}

@test "a signal is named as torchrun names it, and so is the process" {
    run -137 ddprun --nproc-per-node 2 sh -c '[ $RANK = 0 ] && exec sleep 100; echo $$ >"$OUT/pid"; kill -KILL $$'
    [[ $output == *"rank    : 1 "*$'\n'"  ended   : Signal 9 (SIGKILL) received by PID $(cat "$OUT/pid")"$'\n'* ]]
}

@test "the report is whole, though its reader takes its time" {
    run -0 timeout 200 python3 - <<'EOF'
import fcntl, os, subprocess
ours, theirs = os.pipe()
fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
os.set_blocking(theirs, False) # as other programs leave it
ddprun = subprocess.Popen(["03_torchrun_env/ddprun", "--nproc-per-node", "100", "false"], stderr=theirs)
os.close(theirs)
print(os.fdopen(ours).read())
EOF
    [ "$(grep -c "local_rank: .* exit status 1\|local_rank: .* SIGTERM" <<< "$output")" = 99 ]
}
