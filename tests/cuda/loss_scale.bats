#!/usr/bin/env bats
# The dynamic loss scale of --amp fp16, as torch.amp.GradScaler has it, on the stand-in.

bats_require_minimum_version 1.5.0

setup() {
    dir=$BATS_TEST_TMPDIR
    look=tests/cuda/loss_scale.py
}

# fp16 OPTIONS...: a run of 01 with Adam.
fp16() {
    run timeout 900 01_single_gpu/run.sh --device cuda --amp fp16 --optimizer adam --batch-size 16 \
        --num-samples 64 --checkpoint-dir "$dir" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "steps whose gradients overflow are left out, halve the scale, and are not Adam's" {
    for graph in off on; do
        fp16 0
        $look set "$dir/epoch_0.safetensors" "8.5070592e+37 1999 0" # 2^126
        fp16 --resume "$dir/epoch_0.safetensors" --max-steps 7 --cuda-graph $graph
        last=$dir/cnn_digits.safetensors
        [ "$($look show "$last")" = "6.64613998e+35 0 7" ]          # 2^119
        for tensor in fc2.weight optimizer.fc2.weight.exp_avg conv1.bias; do
            [ "$($look moved "$last" "$dir/epoch_0.safetensors" $tensor)" = 0 ]
        done
        # Adam's first step moves a weight by the learning rate; were it the eighth, by half of that.
        $look set "$last" "65536 1999 7"
        cp "$last" "$dir/skipped.safetensors"
        fp16 --resume "$dir/skipped.safetensors" --max-steps 8 --lr 0.001
        [ "$($look moved "$last" "$dir/epoch_0.safetensors" fc2.weight)" = 0.001 ]
        [ "$($look show "$last")" = "131072 0 7" ] # the 2,000th good step
    done
}

@test "a run goes on exactly where it stopped, scale included, as calls or as a graph" {
    fp16 3 1
    mv "$dir/cnn_digits.safetensors" "$dir/through"
    fp16 --resume "$dir/epoch_1.safetensors" --epochs 3 --cuda-graph on
    cmp "$dir/through" "$dir/cnn_digits.safetensors"
    [ "$($look show "$dir/through")" = "65536 12 0" ]
    $look set "$dir/epoch_1.safetensors" "65536 0"
    run -2 01_single_gpu/run.sh --device cuda --amp fp16 --optimizer adam --resume "$dir/epoch_1.safetensors"
    [[ $output == *'"loss_scale" in its metadata is "65536 0", not a scale'* ]]
}

@test "fifty steps left out in a row are a training that has diverged" {
    fp16 0 --num-samples 960
    $look set "$dir/epoch_0.safetensors" "8.5070592e+37 1999 0" # 2^126: 110 steps too many
    run timeout 900 01_single_gpu/run.sh --device cuda --amp fp16 --optimizer adam --batch-size 16 --num-samples 960 \
        --checkpoint-dir "$dir" --resume "$dir/epoch_0.safetensors"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"training diverged: fp16 overflowed 50 times in a row until step 50, "* ]]
}
