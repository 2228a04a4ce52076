#!/usr/bin/env bats
# make lab-...: the program before a step is laid out, and what the learner makes of it is judged.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab LAB_SECONDS=600 # as many as a busy machine may want
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
    [[ $output == *"Turn it into step 02b"*"ours changes 26"* ]]
    judge 1
    [[ ${lines[0]} == "checking $LAB/02b (another: tools/lab.sh check STEP)" ]]
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
    broken "it does not compile" 's/^    optim_step(optim);/    (void)atoi("1");\n&/'
    broken "it does not run to the end: killed by SIGSEGV" 's/^    optim_step(optim);/    *(volatile int *)NULL = 1;/'
    broken "it does not run to the end: status 1" 's/if (batch->number % args/if (rank == 0 \&\& batch->number % args/'
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
        ! cmp -s $ours "$file" || false
        judge 1
        [[ $output == *"no   $text"*"hint: "* ]]
    done <<'END'
other losses than ours|s/first_epoch = snapshots_resume(&snapshots);/first_epoch = 0 * snapshots_resume(\&snapshots); sampler_seek(\&sampler, 0);/
it prints other lines than ours|s/^ *snapshots_step(/            if (rank > 0)\n    &/
told to stop by SIGTERM, it ends with status 0, not 75|s/return stop.agreed ? EXIT_STOPPED : 0;/return stop.agreed ? 0 * EXIT_STOPPED : 0;/
END
}

@test "what is compiled outside the tree reads its config.yaml, and no other" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree" "$BATS_TEST_TMPDIR/tmp"
    for name in *; do
        case $name in
        config.yaml | lab) ;;
        0[1-5]_*) cp -r "$name" "$tree" ;; # a program looks for the file where it really lies
        *) ln -s "$PWD/$name" "$tree" ;;
        esac
    done
    cd "$tree"
    export LAB=lab TMPDIR=$BATS_TEST_TMPDIR/tmp PLAIN=1
    echo 'batch_size: 16' >config.yaml
    echo 'of a stranger' >"$TMPDIR/config.yaml"
    solve 02a
    judge 0 02a
    [[ "$(lab/02a/train --nproc 1 --max-steps 1)" == *"Batchsize: 16 "* ]]
    [[ "$(tools/break.sh 01 's/^/ /' --max-steps 1)" == *"Batchsize: 16 "* ]]
}

@test "what is compiled outside the tree is compiled as the library was" {
    mkdir "$BATS_TEST_TMPDIR/build"
    plan() { # VARIABLE...: how make check-lab would compile, a line for each way
        printf '%s\n' CUDA=0 NCCL=0 MPI=0 CC=gcc 'CFLAGS=-O1 -g' OPENMP= MARCH=x86-64-v2 >"$BATS_TEST_TMPDIR/build/parts"
        env -u MAKEFLAGS make -n V=1 check-lab BUILD="$BATS_TEST_TMPDIR/build" "$@" |
            sed -n '/nvcc/p; / -c -o .*common.base/{s/ -M.* -march/ -march/; s/ -c .*//; p}' | sort -u
    }
    [ "$(plan)" = 'gcc -I. -O1 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -march=x86-64-v2' ]
    [ "$(plan MARCH=x86-64-v3)" = 'gcc -I. -O1 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -march=x86-64-v3' ]
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
