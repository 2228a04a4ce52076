#!/usr/bin/env bats
# The asides train_batch_norm and train_sync_batch_norm: buffers that all ranks share, and that a file keeps.
# (tests/against/torch/batch_norm.bats compares them with PyTorch.)
load ../helpers/training
load ../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    scratch=$(mktemp -d)
}

teardown() {
    rm -rf "$scratch"
}

# train [sync_] RANKS FOLDER OPTIONS...: its output goes to $scratch/FOLDER/said.
train() {
    mkdir -p "$scratch/$3"
    local program=beyond/batch_norm/train_$1batch_norm ranks=$2 folder=$3
    shift 3
    timeout 300 "$program" --nproc "$ranks" --threads 1 --checkpoint-dir "$scratch/$folder" "${few[@]}" "$@" >"$scratch/$folder/said" 2>&1 ||
        { cat "$scratch/$folder/said" && return 1; }
}

final=batch_norm_mnist.safetensors

@test "over all ranks: weights and buffers are those of one process with the whole batch" {
    train '' 1 one --global-batch-size 24 --num-samples 240 --max-steps 8 --lr 0.02
    for ranks in 2 3 4; do # they divide the number of rows
        train sync_ "$ranks" "$ranks" --global-batch-size 24 --num-samples 240 --max-steps 8 --lr 0.02
        near "$scratch/$ranks/$final" "$scratch/one/$final" 1e-5
        [ "$(grep ^Test "$scratch/$ranks/said")" = "$(grep ^Test "$scratch/one/said")" ]
    done
    train '' 4 own --global-batch-size 24 --num-samples 240 --max-steps 8 --lr 0.02 # each rank by its own rows
    run near "$scratch/own/$final" "$scratch/one/$final" 1e-3
    [ "$status" -ne 0 ]
}

@test "ranks have the same buffers at the end of an epoch, with either way, and not with none" {
    for kind in '' sync_; do
        train "$kind" 3 "same$kind" --epochs 2 --num-samples 200 --batch-size 4
        [ "$(grep -c 'Buffers differ by 0.0000 between the ranks' "$scratch/same$kind/said")" -eq 2 ]
    done
    PLAIN=1 tools/break.sh beyond/batch_norm/train_batch_norm.c /conv_net_broadcast_buffers/d --nproc 3 --epochs 1 "${few[@]}" \
        --num-samples 200 --batch-size 4 | grep -q 'Buffers differ by 0\.[0-9]*[1-9]'
}

@test "a run resumes exactly, after an epoch and inside one" {
    for kind in '' sync_; do
        train "$kind" 2 whole --epochs 2 --save-every 1 --num-samples 250
        train "$kind" 2 later --epochs 2 --num-samples 250 --resume "$scratch/whole/epoch_1.safetensors"
        cmp "$scratch/whole/$final" "$scratch/later/$final"
        train "$kind" 2 whole --max-steps 6 --save-every 0
        train "$kind" 2 part --max-steps 2 --save-every 0
        train "$kind" 2 later --max-steps 6 --save-every 0 --resume "$scratch/part/$final"
        cmp "$scratch/whole/$final" "$scratch/later/$final"
    done
}

@test "a file that is not this network's, or lacks a buffer, is refused with one line" {
    train '' 1 own --max-steps 1
    timeout 60 02_multi_gpu_spawn/train --nproc 1 --max-steps 1 --checkpoint-dir "$scratch" >"$scratch/said"
    sed 's/bn2.running_var/bn2.running_vax/' "$scratch/own/$final" >"$scratch/renamed"
    head -c 20000 "$scratch/own/$final" >"$scratch/cut"
    while read -r file words; do
        run beyond/batch_norm/train_batch_norm --nproc 1 --resume "$scratch/$file"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ ${#lines[@]} -eq 1 && $output == *$words* ]]
    done <<'END'
cnn_digits.safetensors is of model cnn, this program trains batch_norm
renamed is damaged
cut cut
nosuch nosuch
END
    run 02_multi_gpu_spawn/train --nproc 1 --resume "$scratch/own/$final"
    [[ $status -eq 2 && $output == *"is of model batch_norm"* ]]
}

@test "what the network does not serve is refused, and --help says so" {
    for given in '--model linear' '--optimizer adam' '--cuda-graph on' '--amp bf16' '--dataset random' '--init-from x' '--metrics-dir x'; do
        # shellcheck disable=SC2086 # two words
        run beyond/batch_norm/train_batch_norm $given
        echo "$output"
        [ "$status" -eq 2 ]
        [[ ${#lines[@]} -eq 1 && $output == *"${given%% *}"* ]]
    done
    for kind in '' sync_; do
        run beyond/batch_norm/train_${kind}batch_norm --help
        [[ $status -eq 0 && ${lines[0]} == "One network of its own, with sgd, in float32."* && $output == *--bucket-cap-mb* ]]
    done
}

@test "a training that diverges stops on all ranks and saves nothing" {
    run timeout 300 beyond/batch_norm/train_sync_batch_norm --nproc 2 --lr 1000 --weight-decay 1000 --momentum 0 --log-interval 1 \
        --checkpoint-dir "$scratch"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c 'training diverged: weights are nan or infinite after step' <<<"$output")" -eq 1 ]
    [ ! -e "$scratch/$final" ]
}
