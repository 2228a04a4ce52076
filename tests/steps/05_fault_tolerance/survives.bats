#!/usr/bin/env bats
# Step 05: faults do not change a run's result. (More of them: make check-faults.)

load ../../faults/faults_helper
load ../../helpers/few_rows

setup_file() {
    few_rows
}

losses() {
    timeout 300 "$@" --dropout off --log-interval 1 --save-every 0 --checkpoint-dir "$OUT/c" |
        sed -n 's/^Train Epoch.*Loss: //p'
}

@test "its losses are those of 04" {
    for options in "${few[*]} --batch-size 8 --max-steps 8" "--model linear --epochs 1 --optimizer adam"; do
        losses 04_slurm_multinode/nodes_here.sh 1 2 04_slurm_multinode/train $options >"$OUT/04"
        rm -r "$OUT/c"
        losses $RUN 2 $options --save-every-steps 3 >"$OUT/05"
        rm -r "$OUT/c"
        [ -s "$OUT/04" ]
        diff "$OUT/04" "$OUT/05"
    done
}

@test "killed at any moment, the run ends with the bytes of one that never was" {
    options="--model linear --epochs 150 --momentum 0.9 --save-every 50 --save-every-steps 20"
    undisturbed "$OUT/straight" 2 $options --save-every-steps 0
    for _ in 1 2 3 4 5; do # one is enough, unless this test is kept waiting until its end
        rm -rf "$OUT/killed"
        MOST_KILLS=3 disturbed "$OUT/killed" 2 $options
        [ "$kills" -eq 0 ] || break
    done
    [ "$kills" -ge 1 ]
    grep -q 'resumes from .*: epoch ' "$OUT/said"
    cmp "$OUT/straight/linear_random.safetensors" "$OUT/killed/linear_random.safetensors"
    cmp "$OUT/straight/epoch_101.safetensors" "$OUT/killed/epoch_101.safetensors"
    [ "$(ls "$OUT/killed" | grep -c 'snapshot.*safetensors$')" -eq 3 ]
    ! has_extras || [ -z "$(find "$OUT" -name '*.tmp')" ]
}

@test "told to stop, all ranks leave with 75, and the next start goes on" {
    options="${few[*]} --batch-size 4 --epochs 4 --num-samples 80 --save-every 0 --optimizer adam"
    undisturbed "$OUT/straight" 2 $options
    for signal in TERM USR1; do
        : >"$OUT/said" # not to be taken for this run's
        # Slow, so that it is not done before the signal.
        $RUN 2 $options --inject slow:0:1:250 --checkpoint-dir "$OUT/stopped" >"$OUT/said" 2>&1 3>&- &
        job=$!
        until_true 200 grep -q '^\[CPU1\] Epoch' "$OUT/said"
        kill -$signal "$(rank_pid 1)" # to one rank
        status=0
        wait $job || status=$?
        cat "$OUT/said"
        [ "$status" -eq 75 ]
        [ "$(grep -c 'all ranks stop after the next step' "$OUT/said")" -eq 1 ]
        [ "$(grep -c 'stopped after step [0-9]*: the same command resumes' "$OUT/said")" -eq 1 ]
        ls "$OUT"/stopped/snapshot_e*
    done
    undisturbed "$OUT/stopped" 2 $options
    [[ $output == *"resumes from $OUT/stopped/snapshot_e"* ]]
    cmp "$OUT/straight/cnn_mnist.safetensors" "$OUT/stopped/cnn_mnist.safetensors"
    undisturbed "$OUT/stopped" 2 $options
    [[ $output == *"nothing left to do: $OUT/stopped/cnn_mnist.safetensors has 4 epochs"* ]]
}

@test "told to stop before all have come, a run stops after its first step" {
    serves() {
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null
    }
    by_hand 0 --model linear 100000 --checkpoint-dir "$OUT/c"
    until_true 200 serves
    kill -STOP "$(rank_pid 0)" # its time runs only when the other is there
    kill -TERM "$(rank_pid 0)"
    by_hand 1 --model linear 100000 --checkpoint-dir "$OUT/c"
    until_true 200 grep -qs '^\[rank 1/2\] host' "$OUT/rank1"
    kill -CONT "$(rank_pid 0)"
    for pid in $pids; do
        status=0
        wait "$pid" || status=$?
        [ "$status" -eq 75 ]
    done
    [ "$(ls "$OUT/c" | paste -sd ' ')" = "flight snapshot_e0_s1.safetensors" ]
}

@test "told to stop before all have come, a rank that waits in vain ends with 75" {
    by_hand 0 --model linear --checkpoint-dir "$OUT/c"
    until_true 200 grep -qs '^\[rank 0/2\] host' "$OUT/rank0"
    kill -TERM "$(rank_pid 0)"
    status=0
    wait $pids || status=$?
    [ "$status" -eq 75 ]
    [ "$(grep -vc '^\[rank 0/2\] host\|waits for rank 1' "$OUT/rank0")" -eq 1 ]
    grep '^\[rank 0/2\] SIGTERM: ends before the group has formed' "$OUT/rank0"
}

@test "more or fewer ranks go on with the same global batch" {
    options="${few[*]} --epochs 2 --num-samples 80 --global-batch-size 8 --dropout off --save-every 0"
    undisturbed "$OUT/straight" 2 $options --metrics-dir "$OUT/m"
    for ranks in 2 1 4; do
        steps=$((steps + 6))
        undisturbed "$OUT/c" $ranks $options --max-steps $steps --metrics-dir "$OUT/m.$ranks"
    done
    undisturbed "$OUT/c" 2 $options --metrics-dir "$OUT/m.last"
    [[ $output == *"resumes from $OUT/c/cnn_mnist.safetensors: epoch 1, step 18"* ]]
    for part in m m.2 m.1 m.4 m.last; do
        mean_losses "$OUT/$part" >"$OUT/losses.$part"
    done
    cat "$OUT"/losses.m.2 "$OUT"/losses.m.1 "$OUT"/losses.m.4 "$OUT"/losses.m.last >"$OUT/all"
    [ "$(wc -l <"$OUT/all")" -eq 20 ]
    agree "$OUT/losses.m" "$OUT/all" 1e-4
    cp "$OUT/c/cnn_mnist.safetensors" "$OUT/old"
    run -0 timeout 300 $RUN 2 $options --global-batch-size 4 --checkpoint-dir "$OUT/c"
    [[ $output == *"of other runs: "*"global_batch_size 8, this run has 4"*"a fresh start"* ]]
    [[ $output == *"$OUT/c/cnn_mnist.safetensors is of another run: it is now $OUT/c/aside/cnn_mnist."* ]]
    cmp "$OUT/old" "$OUT/c/aside"/cnn_mnist.*.safetensors
    ! cmp -s "$OUT/old" "$OUT/c/cnn_mnist.safetensors" || false
}

@test "--resume FILE and none do as they say, and all ranks get what rank 0 reads" {
    options="--model linear --epochs 3 --save-every 1"
    undisturbed "$OUT/c" 2 $options
    # As on two nodes, the second of which does not have the folder.
    by_hand 0 $options --epochs 4 --check-collectives on --checkpoint-dir "$OUT/c"
    by_hand 1 $options --epochs 4 --check-collectives on --checkpoint-dir "$OUT/elsewhere"
    for pid in $pids; do wait "$pid"; done
    grep -q 'resumes from .*: epoch 3, step 96' "$OUT/rank0"
    [ "$(grep -c '\[CPU1\] Epoch 3 ' "$OUT/rank1")" -eq 1 ]
    ! grep 'Epoch 2 ' "$OUT/rank1" || false
    [ "$(ls "$OUT/elsewhere")" = flight ]
    undisturbed "$OUT/c" 2 $options --resume "$OUT/c/epoch_1.safetensors"
    [ "$(grep -c '^\[CPU0\] Epoch [12]' <<<"$output")" -eq 2 ]
    ! grep 'Epoch 0 ' <<<"$output" || false
    undisturbed "$OUT/c" 2 $options --resume none
    [ "$(grep -c '^\[CPU0\] Epoch' <<<"$output")" -eq 3 ]
    MAX_RESTARTS=3 run -2 timeout 300 $RUN 2 $options --resume "$OUT/none" --checkpoint-dir "$OUT/c"
    [[ $output == *"$OUT/none: No such file or directory: name another file with --resume"* ]]
    [[ $output != *"restarting the group"* ]] # it would only happen again
}
