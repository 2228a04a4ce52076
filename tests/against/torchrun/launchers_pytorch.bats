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
