#!/usr/bin/env bats
# make lab-...: the program before a step is laid out, and what the learner makes of it is judged.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab
}

# judge STATUS [STEP]: what tools/lab.sh says of the lab.
judge() {
    expected=$1
    shift
    run tools/lab.sh check "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
}

# Our own program of a step, as the learner's.
solve() {
    tools/lab.sh "$1" >/dev/null
    cp "$(tools/stepdiff.sh --count | awk -v step="$1:" '$1 == step { print $3 }')" "$LAB/$1/train.c"
}

@test "a lab begins with the program before the step, and is not begun twice" {
    run tools/lab.sh 02b
    [ "$status" -eq 0 ]
    cmp 02_multi_gpu_spawn/train_a_spawn.c "$LAB/02b/train.c"
    [[ $output == *"Turn it into step 02b"*"ours changes 28"* ]]
    judge 1
    [[ $output == *"is still the program before"*"hint: "* ]]
    echo '// mine' >>"$LAB/02b/train.c"
    run tools/lab.sh 02b
    [ "$status" -eq 1 ]
    grep -q '^// mine' "$LAB/02b/train.c"
    [[ $output == *"no   the program does not mention process_group_init yet"*"hint: "* ]]
}

@test "our own programs pass, every one of them" {
    for step in 02a 02b 02c 02 03 04 05; do
        solve $step
        judge 0 $step
        [[ $output == *"Done."* ]]
    done
    [ "$(ls tools/lab/*.txt | wc -l)" -eq 7 ]
}

@test "what does not compile, run, or train as it should is told apart, with a hint" {
    solve 02c
    file=$LAB/02c/train.c
    broken() { # TEXT SED: one change to our program, and what is said of it
        solve 02c 2>/dev/null || true
        cp 02_multi_gpu_spawn/train_c_sampler.c "$file"
        sed -i "$2" "$file"
        judge 1
        [[ $output == *"no   $1"*"hint: "* ]]
    }
    broken "it does not compile" 's/Sampler sampler;/Sampler sampler/'
    broken "it does not run to the end" 's/if (batch->number % args/if (rank == 0 \&\& batch->number % args/'
    broken "other losses than ours" 's/REDUCE_MEAN);$/REDUCE_SUM);/'
    broken "it prints other lines than ours" 's/^    if (pg->rank == 0)/    if (true)/'
    broken "at the end the ranks have other weights" 's/^    metrics_free/    model.params[5] += rank;\n&/'
    cp 02_multi_gpu_spawn/train_c_sampler.c "$file"
    for i in $(seq 30); do echo "// $i" >>"$file"; done
    judge 1
    [[ $output == *"no   64 lines changed, 60 would do"* ]]
}

@test "step 05: what does not go on, save or stop as it should is told apart" {
    ours=05_fault_tolerance/train.c file=$LAB/05/train.c
    mkdir -p "$LAB/05"
    while IFS='|' read -r text edit; do
        sed "$edit" $ours >"$file"
        ! cmp -s $ours "$file"
        judge 1
        [[ $output == *"no   $text"*"hint: "* ]]
    done <<'END'
other losses than ours|s/first_epoch = snapshots_resume(&snapshots);/first_epoch = 0 * snapshots_resume(\&snapshots); sampler_seek(\&sampler, 0);/
it prints other lines than ours|s/^ *snapshots_step(/            if (rank > 0)\n    &/
told to stop by SIGTERM, it ends with status 0, not 75|s/return stop.agreed ? EXIT_STOPPED : 0;/return stop.agreed ? 0 * EXIT_STOPPED : 0;/
END
}

@test "a step that is none, and a lab that is not there, are named" {
    run tools/lab.sh 07
    [ "$status" -eq 2 ]
    [[ $output == *"'07' is none of 02 02a 02b 02c 03 04 05" ]]
    run make lab-07 BUILD="$BATS_TEST_TMPDIR/build"
    [ "$status" -eq 2 ]
    [[ $output == *"'07' is none of 02 02a 02b 02c 03 04 05"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/build" ] # before anything is built
    judge 2
    [[ $output == *"nothing is begun: make lab-02a"* ]]
}
