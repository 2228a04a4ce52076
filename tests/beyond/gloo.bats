#!/usr/bin/env bats
# The aside train_gloo among ranks in C: under ddprun, beside --backend tcp, and what run.sh refuses.

load ../helpers/few_rows

setup_file() {
    few_rows
}

job() { # FOLDER RANKS OPTIONS...
    local folder=$BATS_TEST_TMPDIR/$1 ranks=$2
    shift 2
    run timeout 300 beyond/gloo/run.sh "$ranks" 0 --threads 1 --device cpu "${few[@]}" --max-steps 4 --save-every 0 --checkpoint-dir "$folder" "$@"
    [ "$status" -eq 0 ] || { echo "$output" && return 1; }
}

@test "two ranks end with the bytes of --backend tcp; four add in another order" {
    job gloo2 2
    job tcp2 2 --backend tcp
    cmp "$BATS_TEST_TMPDIR"/{gloo2,tcp2}/cnn_mnist.safetensors
    job gloo4 4
    job tcp4 4 --backend tcp
    ! cmp "$BATS_TEST_TMPDIR"/{gloo4,tcp4}/cnn_mnist.safetensors
}

@test "DDP's calls, in PyTorch's order" {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "a build without extras has no DDP_LOG"
    DDP_LOG=distributed,bucket job log 2
    echo "$output"
    calls=$(grep 'rank 0/2.*sent' <<<"$output" | sed -n 's/.* distributed: \([a-z_]*\) #\([0-9]*\)\( of [0-9]* [a-z0-9]*\)*.*/\2 \1\3/p' | sort -n)
    [ "$(head -n 9 <<<"$calls")" = "0 all_gather of 1 int64
1 broadcast of 32 int64
2 broadcast of 1199882 float32
3 all_reduce of 1199882 float32
4 all_reduce of 1 float32
5 broadcast of 9 int32
6 broadcast of 2 int32
7 all_reduce of 1181066 float32
8 all_reduce of 18816 float32" ]
    [ "$(tail -n 1 <<<"$calls" | cut -d ' ' -f 2)" = barrier ]
    [[ $output == *"bucket 0 of 2, as rank 0 has it: "* ]]
}

@test "other optimizers are warned of, and another backend is refused" {
    job adam 2 --optimizer adam
    [[ $output == *"only sgd rounds as PyTorch's does: with another optimizer the weights"* ]]
    run timeout 60 beyond/gloo/run.sh 2 0 --backend mpi
    [ "$status" -eq 2 ]
    [[ $output == *"--backend mpi: this program has gloo and tcp"* ]]
    run timeout 60 03_torchrun_env/run.sh 2 --backend gloo
    [ "$status" -eq 2 ]
    [[ $output == *"--backend gloo is for beyond/gloo/train_gloo"* ]]
}

@test "run.sh says how it is used, and what it lacks" {
    for words in "" "1" "1 x" "0 0" "-1 2"; do
        # shellcheck disable=SC2086 # words
        run beyond/gloo/run.sh $words
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ $output == *"Usage: "* ]]
    done
    ORDER=cpc run beyond/gloo/run.sh 1 1
    [ "$status" -eq 2 ]
    PYTHON=no-such-python run beyond/gloo/run.sh 1 1
    [ "$status" -eq 1 ]
    [[ $output == *"no-such-python has no PyTorch: pip install torch, or set PYTHON"* ]]
    LAUNCHER=srun run beyond/gloo/run.sh 1 0
    [ "$status" -eq 2 ]
    [[ $output == *"LAUNCHER=srun: it is ddprun or torchrun"* ]]
}
