#!/usr/bin/env bats
# Real PyTorch's losses on real MNIST, and its accuracies. Run by make check-mnist.

setup() {
    for MNIST in "${MNIST:-data/mnist}" ../shared/data/mnist; do
        export MNIST
        [ ! -e "$MNIST/train-images-idx3-ubyte.gz" ] || return 0
    done
    skip "no MNIST in data/mnist: data/get_mnist.sh gets it"
}

compare() {
    run tests/golden_losses.py "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# The accuracy in per cent that a run ends with.
accuracy() {
    scratch=$(mktemp -d)
    run "$@" --dataset mnist --data-dir "$MNIST" --checkpoint-dir "$scratch" --log-interval 100
    rm -r "$scratch"
    echo "$output"
    [ "$status" -eq 0 ]
    accuracy=$(echo "$output" | sed -n 's/^Test Epoch.*Accuracy: \([0-9.]*\)%.*/\1/p' | tail -n 1)
}

@test "cnn, sgd, 1 rank: 01, 02 and 03 give PyTorch's losses" {
    compare cnn_sgd_w1 01_single_gpu/run.sh 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn, momentum, 1 rank: 01, 02 and 03 give PyTorch's losses" {
    compare cnn_momentum_w1 01_single_gpu/run.sh 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn, adadelta, 1 rank: 01, 02 and 03 give PyTorch's losses" {
    compare cnn_adadelta_w1 01_single_gpu/run.sh 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn, sgd, 2 ranks: 02 and 03 give PyTorch's losses" {
    compare cnn_sgd_w2 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "cnn, adamw, 2 ranks: 02 and 03 give PyTorch's losses" {
    compare cnn_adamw_w2 02_multi_gpu_spawn/run.sh 03_torchrun_env/run.sh
}

@test "03 on 2 ranks reaches 98.3 % in 2 epochs (PyTorch: 98.56 %)" {
    accuracy 03_torchrun_env/run.sh 2 --epochs 2
    awk -v a="$accuracy" 'BEGIN { exit !(a >= 98.3) }'
}

@test "01 reaches 98.9 % in 4 epochs (PyTorch: 99.1 %)" {
    accuracy 01_single_gpu/run.sh --epochs 4
    awk -v a="$accuracy" 'BEGIN { exit !(a >= 98.9) }'
}
