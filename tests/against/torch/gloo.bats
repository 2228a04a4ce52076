#!/usr/bin/env bats
# beyond/gloo beside PyTorch's own ranks, in one job. A letter is a rank: "pcp" is PyTorch, C, PyTorch.
load helper

@test "every collective, type and place: the results of a job of PyTorch alone, bit for bit" {
    against_torch gloo.py collectives pp pc cp cc ppp cpp pcp ppc ccp
}

@test "the CNN and DDP's buckets: PyTorch's losses, and equal weights on all ranks" {
    against_torch gloo.py train cnn pp pc cp ppp pcp cpp ppc
}

@test "20 steps with momentum of a model without corners: PyTorch's losses and weights" {
    against_torch gloo.py train linear pp pc cp cc
}

@test "a rank that is killed, stopped, or makes another call" {
    against_torch gloo.py failures
}

@test "IPv6, and two addresses of one machine" {
    against_torch gloo.py addresses
}

# run JOB...: its lines, which are those of a job of train.py alone
lines_of() {
    run env PYTHON="$TORCH_BIN/python" timeout 600 "$@" --max-steps 6 --dropout off --threads 1 --device cpu --save-every 0 --log-interval 3 \
        --checkpoint-dir "$BATS_TEST_TMPDIR"
    [ "$status" -eq 0 ] || { echo "$output" && return 1; }
    grep '^T' <<<"$output"
}

@test "run.sh starts such jobs under ddprun and torchrun, and they print what train.py alone prints" {
    alone=$(lines_of beyond/gloo/run.sh 0 2)
    echo "$alone"
    [ "$(wc -l <<<"$alone")" -eq 3 ]
    [ "$(lines_of beyond/gloo/run.sh 1 1)" = "$alone" ]
    [ "$(LAUNCHER=torchrun lines_of beyond/gloo/run.sh 1 1)" = "$alone" ]
    [ "$(ORDER=cp LAUNCHER=torchrun lines_of beyond/gloo/run.sh 1 1)" = "$alone" ]
}
