#!/usr/bin/env bats
# --trace and --profile report what the run has done. Expected numbers come from the model's size.

load ../../helpers/few_rows

setup_file() {
    few_rows
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    repo=${BATS_TEST_DIRNAME%/tests/*}
    trace=$BATS_TEST_TMPDIR/trace.json profile=$BATS_TEST_TMPDIR/profile.txt
}

# row NAME: the mean seconds of a line of the profile.
row() {
    awk -v name="$1" 'index($0, name) == 1 { sub(name, ""); print $1 }' "$profile"
}

@test "a trace of two ranks: every bucket, every layer, clocks that agree" {
    record() { "$repo/03_torchrun_env/run.sh" 2 "${few[@]}" --max-steps 3 --bucket-cap-mb 1 --trace "$trace" >/dev/null; }
    record
    events() { jq "[.traceEvents[] | select($1)] $2" "$trace"; }
    [ "$(events '.ph == "X"' '| map(.pid) | unique | join(",")')" = '"1,2"' ]
    # The 1,199,882 gradients of the CNN, four bytes each, in three steps, on each rank.
    [ "$(events '.pid == 2 and .name == "all_reduce" and .args.type == "float32"' '| map(.args.bytes) | add')" -eq $((3 * 4 * 1199882)) ]
    for layer in conv1 conv2 fc1 fc2; do
        [ "$(events ".pid == 1 and .cat == \"backward\" and .name == \"$layer\"" '| length')" -eq 3 ]
    done
    [ "$(events '.pid == 1 and .name == "optim_step"' '| length')" -eq 3 ]
    # Perfetto's rules (json_trace_parser, flow_tracker): no process or thread 0; an arrow's id is a number, or it is
    # dropped, and each of its ends lies in a slice, which is open from ts to before ts + dur.
    [ "$(jq '[.traceEvents[] | .pid, .tid] | min' "$trace")" -eq 1 ]
    [ "$(events '.ph == "s"' '| map(.id) | length - (unique | length)')" -eq 0 ]
    [ "$(events '.ph == "s"' '| map(.id) | sort')" = "$(events '.ph == "f"' '| map(.id) | sort')" ]
    [ "$(events '.ph == "s" and (.id | type) != "number"' '| length')" -eq 0 ]
    jq -e '[.traceEvents[] | select(.ph == "X")] as $slices | [.traceEvents[] | select(.ph == "s" or .ph == "f")]
        | all(. as $arrow | any($slices[]; .pid == $arrow.pid and .tid == $arrow.tid and .ts <= $arrow.ts and $arrow.ts < .ts + .dur))' "$trace"
    # Every bucket has one.
    buckets=$(events '.name == "all_reduce" and .args.type == "float32"' '| length')
    [ "$(events '.ph == "f"' '| length')" -ge "$buckets" ] && [ "$buckets" -ge 12 ]
    jq -e '.distributedInfo | .rank == 0 and .world_size == 2 and .backend == "tcp"' "$trace" # as PyTorch's traces have it
    [ "$(events '.name == "process_sort_index"' '| map([.pid, .args.sort_index])' | jq -c .)" = '[[1,0],[2,1]]' ]
    [ "$(events '.ph == "X" and (.dur < 0 or .ts < -1e6)' '| length')" -eq 0 ]
    # No rank has the sum of a bucket before both have sent their part; 5 milliseconds are more than the
    # clocks differ by where the ranks that compare them share a core with others.
    clocks_agree() {
        jq -e '[.traceEvents[] | select(.name == "all_reduce")] | group_by(.pid)
            | [.[0], .[1]] | transpose
            | all((map(.ts) | max) < (map(.ts + .dur) | min) + 5000)' "$trace"
    }
    for _ in 1 2 3 4; do # they differ by more if every question for the time had to wait for a core
        ! clocks_agree || break
        record
    done
    clocks_agree
}

@test "lanes are drawn from a trace, or a line says why not" {
    "$repo/03_torchrun_env/run.sh" 2 "${few[@]}" --max-steps 3 --trace "$trace" >/dev/null
    run "$repo/tools/lanes.sh" "$trace" 2
    [ "$output" = "${trace%.json}.png
${trace%.json}.svg" ]
    for text in 'rank 0' 'rank 1' messages milliseconds conv2 backward all-reduce; do
        grep -q ">$text<" "${trace%.json}.svg"
    done
    run "$repo/tools/lanes.sh" "$trace" # the last step, without the evaluation that comes after it
    [ "$status" -eq 0 ]
    [ "$(grep -o '>conv2<' "${trace%.json}.svg" | wc -l)" -le 4 ] # forward and backward of two ranks
    run "$repo/tools/lanes.sh" "$trace" 4
    [ "$status" -eq 1 ]
    [[ $output == *"has 3 steps: STEP=1 to 3" ]]
    run "$repo/tools/lanes.sh" nosuch.json
    [ "$status" -eq 1 ]
    [[ $output == *"there is no file nosuch.json"* ]]
    echo no >"$trace"
    run "$repo/tools/lanes.sh" "$trace" 1
    [ "$status" -eq 1 ] && [ "${#lines[@]}" -eq 1 ]
}

@test "a profile's phases sum to the run's wall time" {
    start=$(date +%s.%N)
    "$repo/03_torchrun_env/run.sh" 2 --epochs 1 --bucket-cap-mb 1 --profile "$profile" >/dev/null
    wall=$(awk "BEGIN { print $(date +%s.%N) - $start }")
    cat "$profile"
    awk -v wall="$wall" '
        /^sum/ { total = $6; exit }
        /^[a-z]/ && !/^phase/ { sum += $(NF - 5) }
        END { print "sum", sum, "total", total, "wall", wall
              exit !(sum > 0.97 * total && sum < 1.03 * total && total < wall && total > 0.02 * wall) }' "$profile"
    [ "$(row 'communication exposed')" != "" ]
    awk -v a="$(row 'communication hidden')" -v b="$(row 'communication exposed')" -v c="$(row 'communication in all')" \
        'BEGIN { exit !(a + b > c - 0.003 && a + b < c + 0.003 && c > 0) }'
    grep -qE 'bounds this run|is slow' "$profile"
}

@test "a profile names the rank that keeps the others waiting" {
    cat >slow.sh <<'END'
#!/bin/sh
# Rank 1 is stopped most of the time, for $STOP seconds each.
if [ "$RANK" = 1 ]; then
    me=$$
    (while kill -STOP $me && sleep $STOP && kill -CONT $me && sleep 0.03; do :; done) 2>/dev/null &
fi
exec "$@"
END
    for stop in 0.15 0.6 2.4; do # more than others who want its core do to rank 0
        STOP=$stop "$repo/03_torchrun_env/ddprun" --nproc-per-node 2 sh slow.sh "$repo/03_torchrun_env/train" \
            --epochs 1 --threads 1 --profile "$profile" >/dev/null
        cat "$profile"
        ! grep -q '^Rank 1 is slow' "$profile" || break
    done
    grep -q '^Rank 1 is slow: it kept the others waiting' "$profile"
}

@test "one rank alone has a trace and a profile, too" {
    trace=$BATS_TEST_TMPDIR/new/folder/trace.json profile=new/profile.txt # as --metrics-dir has it
    "$repo/01_single_gpu/run.sh" --model linear --epochs 1 --trace "$trace" --profile "$profile" >/dev/null
    [ "$(jq '[.traceEvents[] | select(.name == "optim_step")] | length' "$trace")" -eq 64 ]
    [ "$(jq '[.traceEvents[] | select(.tid == 2 and .ph == "X")] | length' "$trace")" -eq 0 ]
    grep -q 'bounds this run\|Little of the time' "$profile"
}

@test "files that cannot be written are noticed before the training" {
    mkdir "$BATS_TEST_TMPDIR/none"
    for option in --trace --profile; do
        run "$repo/03_torchrun_env/run.sh" 2 $option "$BATS_TEST_TMPDIR/none"
        [ "$status" -eq 1 ]
        [[ $output == *"cannot write $BATS_TEST_TMPDIR/none: Is a directory: name another file with $option"* ]]
        [[ $output != *"Train Epoch"* ]]
    done
}

@test "ranks that disagree about what to record say so" {
    printf '#!/bin/sh\n[ "$RANK" = 1 ] || set -- "$@" --trace %s\nexec "$@"\n' "$trace" >one.sh
    run "$repo/03_torchrun_env/ddprun" --nproc-per-node 2 sh one.sh "$repo/03_torchrun_env/train" --max-steps 1
    [ "$status" -eq 1 ] && [[ $output == *"the ranks disagree"*"--trace"* ]]
}

@test "a run that gives up while it is recorded: the reason, and no trace" {
    MAX_RESTARTS=0 run "$repo/05_fault_tolerance/run.sh" 2 "${few[@]}" --batch-size 4 --inject bitflip:1:20 --check-sync 10 --max-steps 60 --trace "$trace"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"fatal: the replicas differ"* ]]
    [ ! -s "$trace" ]
}
