# Programs of PyTorch under our launcher: they run as under torchrun, and print the same.

load launchers_helper

# same_under_ddprun SCRIPT...: on two ranks, of one node and of two.
same_under_ddprun() {
    node 0 torchrun --standalone --nproc-per-node 2 "$@"
    losses "$OUT/node_0" > "$OUT/expected"
    cat "$OUT/expected"
    [ "$(wc -l < "$OUT/expected")" -eq 5 ]

    node 0 ddprun --nproc-per-node 2 "$@"
    diff "$OUT/expected" "$OUT/node_0"
    two_nodes ddprun ddprun python "$@"
    [ "$status_0 $status_1" = "0 0" ]
    diff "$OUT/expected" "$OUT/node_0"
    [ ! -s "$OUT/node_1" ]
}

@test "a plain DDP script on gloo" {
    same_under_ddprun tests/against/torchrun/launchers_ddp.py
}

@test "a tutorial's Trainer with DistributedSampler" {
    same_under_ddprun tests/against/torchrun/launchers_trainer.py 5 --batch_size 64
}

@test "last words that PyTorch's @record leaves are in our report" {
    cat > "$OUT/boom.py" <<'END'
from torch.distributed.elastic.multiprocessing.errors import record
@record
def main():
    raise ValueError("boom")
main()
END
    run -1 ddprun "$OUT/boom.py"
    [[ $output == *"rank    : 0 "*"ended   : exit status 1"*"message : ValueError: boom"* ]]
    rm "$TMPDIR"/*/attempt_0/0/error.json && find "$TMPDIR" -mindepth 1 -depth -delete
}

# torchrun's ranks find the keys of the attempt before, and Gloo connects to addresses that are gone (findings/torchrun_restart.sh).
@test "PyTorch's ranks start again in an empty store, with fixed nodes and with nodes that come and go" {
    cat > "$OUT/again.py" <<'END'
import os
import torch
import torch.distributed as dist
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
is_empty = not store.check(["mine"])
dist.init_process_group("gloo")
store.set("mine", "")
if attempt + rank == "01":
    os._exit(3)
dist.all_reduce(torch.ones(1))
if rank == "0":
    print("attempt", attempt, "empty" if is_empty else "not empty", flush=True)
dist.destroy_process_group()
os._exit(0)
END
    for nodes in "" "--nnodes 1:2 --rdzv-conf last_call_timeout=1 --rdzv-endpoint 127.0.0.1:$(free_port)"; do
        node 0 timeout -k 20 400 05_fault_tolerance/ddprun $nodes --nproc-per-node 2 --max-restarts 1 "$OUT/again.py"
        grep -q "attempt 0: rank 1 .* exit status 3; restarting" "$OUT/node_0.err"
        [ "$(cat "$OUT/node_0")" = "attempt 1 empty" ]
    done
}
