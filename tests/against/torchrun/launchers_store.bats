# The store that the ranks use under torchrun, also after a dead attempt has used it.

load launchers_helper

# What a rank does here: rank 1 looks who listens before any training has begun, then both train.
rank='if [ "$RANK" = 1 ]; then
          listens=no
          ! (exec 3<> "/dev/tcp/$MASTER_ADDR/$MASTER_PORT") 2> /dev/null || listens=yes
          echo "$TORCHELASTIC_USE_AGENT_STORE $listens" > "$OUT/before"
      fi
      until [ -s "$OUT/before" ]; do sleep 0.05; done
      "$@" || exit'

@test "the agent's: it is there before the ranks, and keeps their keys after them" {
    node 0 torchrun --standalone --nproc-per-node 2 --no-python bash -c "$rank"'
        [ "$RANK" = 1 ] || exec python "$OUT/keys.py"' bash \
        03_torchrun_env/train $(train_options linear) &
    cat > "$OUT/keys.py" <<'END'
import os
from torch.distributed import TCPStore
store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
prefix = "ddp.c/{TORCHELASTIC_RUN_ID}/0/".format(**os.environ)
print("keys of ours:", sum(key.startswith(prefix) for key in store.list_keys()) > 0)
print("workers counted:", store.add("init/", 0))
END
    wait $!
    [ "$(cat "$OUT/before")" = "True yes" ]
    grep -q "keys of ours: True" "$OUT/node_0"
    under_ddprun linear 2
    diff "$OUT/expected" <(losses "$OUT/node_0")
}

@test "rank 0's, where torchrun shares none" {
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 node 0 torchrun --standalone --nproc-per-node 2 --no-python \
        bash -c "$rank" bash 03_torchrun_env/train $(train_options linear)
    [ "$(cat "$OUT/before")" = "False no" ]
    under_ddprun linear 2
    diff "$OUT/expected" <(losses "$OUT/node_0")
}

# The variable alone decides, whatever else torchrun has set: as in PyTorch, rank 0 then wants the port.
@test "rank 0's, too, where the variable is missing: then an agent's is in its way" {
    run -1 torchrun --standalone --nproc-per-node 2 --no-python env -u TORCHELASTIC_USE_AGENT_STORE \
        03_torchrun_env/train $(train_options linear)
    [[ $output == *"cannot serve the store at localhost:"*"ddress already in use"* ]]
}

# In the first attempt, rank 1 is killed while all are training; its keys remain with the agent.
restarted() {
    node 0 torchrun --standalone --nproc-per-node 2 --max-restarts 1 --no-python sh -c '
        echo "$RANK $TORCHELASTIC_RESTART_COUNT" >> "$OUT/started"
        [ "$RANK$TORCHELASTIC_RESTART_COUNT" = 10 ] || exec "$@"
        "$@" --max-steps 1000000 &
        until grep -q "^Train" "$OUT/node_0" || ! kill -0 $!; do sleep 0.05; done
        kill -KILL $! && exit 3' sh 03_torchrun_env/train $(train_options linear)
    [ "$(sort "$OUT/started")" = "0 0
0 1
1 0
1 1" ]
    under_ddprun linear 2
    diff "$OUT/expected" <(losses "$OUT/node_0" | tail -n "$(wc -l < "$OUT/expected")")
}

@test "--max-restarts: the second attempt is not confused by the keys of the first" {
    restarted
}

@test "--max-restarts where rank 0 serves the store, at the same port again" {
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 restarted
}
