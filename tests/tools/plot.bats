#!/usr/bin/env bats
# make plot: the contents of the pictures, and its message if there is nothing to draw.

setup() {
    RUN=$BATS_TEST_TMPDIR/one
    mkdir -p "$RUN"
}

# png_size FILE: width and height, as its header has them.
png_size() {
    od -An -tu1 -j16 -N8 "$1" | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }'
}

@test "a run of two ranks: the mean of their losses, least squares, axes and a legend" {
    ./03_torchrun_env/run.sh 2 --model linear --epochs 2 --metrics-dir "$RUN" \
        --checkpoint-dir "$BATS_TEST_TMPDIR" --seed 18446744073709551615
    run make -s plot RUN="$RUN"
    [ "$output" = "$RUN/plot.png
$RUN/plot.svg" ]
    [ "$(png_size "$RUN/plot.png")" = "900 420" ]
    grep -q '>training loss<' "$RUN/plot.svg"
    grep -q '>optimizer step<' "$RUN/plot.svg"
    grep -q '>one<' "$RUN/plot.svg"
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "this build writes no run.json"
    grep -q ">least squares: $(tools/optimum --seed 18446744073709551615)<" "$RUN/plot.svg"
}

@test "two runs in one picture, with accuracies below" {
    other=$BATS_TEST_TMPDIR/an\ other
    mkdir "$other"
    for dir in "$RUN" "$other"; do
        for step in 1 2 3; do
            echo "{\"epoch\":0,\"step\":$step,\"rank\":0,\"loss\":$((4 - step))}"
        done >"$dir/rank0.jsonl"
        echo '{"epoch":0,"step":3,"loss":1.25,"accuracy":0.5}' >"$dir/test.jsonl"
        printf '{"epoch":0,"st' >>"$dir/rank0.jsonl" # a run that is at work, or was killed
    done
    tools/plot.sh "$RUN" "$other"
    [ "$(png_size "$RUN/plot.png")" = "900 840" ]
    grep -q '>test accuracy, %<' "$RUN/plot.svg"
    [ "$(grep -o '>an other<' "$RUN/plot.svg" | wc -l)" -eq 2 ] # at the ends of its lines
}

@test "where there is nothing to draw, one line says what to name" {
    run tools/plot.sh "$RUN"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"no metrics in $RUN"*--metrics-dir* ]]
    run make -s plot BUILD="$BATS_TEST_TMPDIR/build"
    [ "$status" -ne 0 ]
    [[ $output == *"Usage: tools/plot.sh DIR"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/build" ] # before anything is built
}

@test "optimum says of what it has none" {
    run tools/optimum --model cnn
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    run tools/optimum --dataset-size 5
    [ "$status" -eq 1 ] && [[ $output == *"too few rows"* ]]
}
