#!/usr/bin/env bats
# make lab-...: the program before a step is laid out, and the learner's program is judged.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab LAB_SECONDS=600 # as many as a busy machine may want
    export LAB_OURS=$BATS_FILE_TMPDIR/ours # our own programs run once
}

# Programs are judged by the journals of extras/watch.
needs_journals() {
    ! grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "this build keeps no journals"
}

# judge STATUS [STEP]: the verdict of teach/lab.sh on the lab.
judge() {
    expected=$1
    shift
    run teach/lab.sh check "$@"
    echo "$output"
    [ "$status" -eq "$expected" ]
}

# Our own program of a step, as the learner's.
solve() {
    teach/lab.sh "$1" >/dev/null
    cp "$(tools/stepdiff.sh --pairs | awk -v step="$1:" '$1 == step { print $3 }')" "$LAB/$1/train.c"
}

@test "every lab says how long it takes" {
    [ "$(grep -LE 'minutes|hours' teach/lab/*.txt)" = teach/lab/hints.txt ]
}

@test "a lab begins with the program before the step, and is not begun twice" {
    run teach/lab.sh 02b
    [ "$status" -eq 0 ]
    cmp 02_multi_gpu_spawn/train_a_spawn.c "$LAB/02b/train.c"
    [[ $output == *"Turn it into step 02b"*"ours changes 31"* ]]
    judge 1
    [[ ${lines[0]} == "checking $LAB/02b (to check another one: teach/lab.sh check STEP)" ]]
    [[ $output == *"is still the program before"*"hint: "* ]]
    echo '// mine' >>"$LAB/02b/train.c"
    run teach/lab.sh 02b
    [ "$status" -ne 0 ]
    grep -q '^// mine' "$LAB/02b/train.c"
    needs_journals
    [[ $output == *"yes  it compiles"*"no   rank 0 is in no process group"*"hint: process_group_init"* ]]
}

@test "a judge that is killed, or gets Ctrl-C, leaves no program running" {
    cat >"$BATS_TEST_TMPDIR/endless" <<'END'
#!/bin/sh
sleep 600 & # a rank
echo $! >"$0.rank"
wait
END
    chmod +x "$BATS_TEST_TMPDIR/endless"
    for signal in KILL INT HUP; do
        rm -rf "$BATS_TEST_TMPDIR"/{endless.rank,runs}
        env -u LAB_OURS --default-signal=INT,HUP python3 teach/lab/judge.py 02c "$BATS_TEST_TMPDIR/endless"{,} "$BATS_TEST_TMPDIR/runs" 3>&- &
        timeout 60 sh -c 'until [ -s "$0" ]; do sleep 0.05; done' "$BATS_TEST_TMPDIR/endless.rank"
        kill -s $signal $!
        timeout 20 sh -c 'while kill -0 "$0" 2>/dev/null; do sleep 0.05; done' "$(cat "$BATS_TEST_TMPDIR/endless.rank")"
    done
}

@test "check-lab leaves no temporary folder when its terminal closes" {
    mkdir "$BATS_TEST_TMPDIR"/{bin,tmp}
    printf '#!/bin/sh\necho $$ >"%s/up"\nexec sleep 600\n' "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/bin/make"
    chmod +x "$BATS_TEST_TMPDIR/bin/make"
    teach/lab.sh 02b
    echo '// mine' >>"$LAB/02b/train.c"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH TMPDIR=$BATS_TEST_TMPDIR/tmp teach/lab.sh check 02b 3>&- &
    timeout 60 sh -c 'until [ -s "$0" ]; do sleep 0.05; done' "$BATS_TEST_TMPDIR/up"
    [ -n "$(ls -A "$BATS_TEST_TMPDIR/tmp")" ]
    kill -s HUP $! "$(cat "$BATS_TEST_TMPDIR/up")" # as a terminal does, to all
    wait $! || true
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/tmp")" ]
}

# bats test_tags=slow
@test "our own programs pass, every one of them" {
    needs_journals
    for step in 02a 02b 02c 02 03 04 05; do
        solve $step
        judge 0 $step
        [[ $output == *"Done."* ]]
        [ -e "$LAB/$step/done" ] # what make progress asks
    done
    [ "$(ls teach/lab/0*.txt | wc -l)" -eq 7 ]
}

# broken TEXT SED: one change to our program of step 02c, and what is said of it.
broken() {
    file=$LAB/02c/train.c
    [ -e "$file" ] || solve 02c
    touch "$LAB/02c/done"
    cp 02_multi_gpu_spawn/train_c_sampler.c "$file"
    sed -i "$2" "$file"
    judge 1
    [[ $output == *"no   $1"*"hint: "* ]]
    [ ! -e "$LAB/02c/done" ]
}

@test "what does not compile, run, or train as it should is told apart, with a hint" {
    needs_journals
    broken "it does not compile" 's/Sampler sampler;/Sampler sampler/'
    broken "it is killed by SIGSEGV" 's/^    optim_step(optim);/    *(volatile int *)NULL = 1;/'
    broken "it is killed by SIGSEGV" 's/^    optim_step(optim);/    if (pg->rank == 1)\n        *(volatile int *)NULL = 1;\n&/'
    [[ $output != *"is gone"* ]] # another rank's line is not the reason
    broken "in step 1 the gradients are 3 times as large" 's/REDUCE_MEAN);$/REDUCE_SUM);/'
}

# bats test_tags=slow
@test "what no compiler warns of, calls that do not fit, and ranks that part are told apart, with a hint" {
    needs_journals
    broken "it does not compile" 's/^    optim_step(optim);/    (void)atoi("1");\n&/'
    [[ $output == *"hint: atoi is declared in a header that is not included: "*"stdlib.h"* ]]
    broken "it does not compile" 's/^    optim_step(optim);/    (void)dist_env_cores(0);\n&/'
    [[ $output == *"hint: dist_env_cores is declared in a header that is not included: common/comm/dist_env.h"* ]]
    broken "collective " 's/if (batch->number % args/if (rank == 0 \&\& batch->number % args/'
    broken "the result is printed by" 's/^    if (pg->rank == 0)/    if (true)/'
    broken "after step 1 the ranks have different weights" 's/^    optim_step(optim);/&\n    model->params[5] += pg->rank;/'
}

# bats test_tags=slow
@test "step 05: what does not go on, save or stop as it should is told apart" {
    needs_journals
    tests/labs/try_programs.py 05:resume_rows 05:save_missing 05:stop_status
}

@test "the error that ended a program is shown, and not what it said before" {
    needs_journals
    solve 04
    sed -i 's/^    if (local_rank == 0)$/    if (rank == 0)/; /^    barrier/d' "$LAB/04/train.c"
    judge 1 04
    [[ $output == *"no   it ends with status "*"-ubyte is missing, plain and as .gz"*"hint: pass STEP_NODES"* ]]
    [[ $output == *"hint: call barrier(&pg) after scratch_fill"* ]]
}

@test "all mistakes are named, and words of the source do not matter" {
    needs_journals
    solve 02c
    sed -i 's|^ *sampler_set_epoch.*|// sampler_set_epoch(\&sampler, epoch)|; s/pg->rank, pg->world_size);/0, 1);/; /^    model_train/d' "$LAB/02c/train.c"
    judge 1
    [[ $output == *"no   rank 0 has the same rows in the same order in every epoch"* ]]
    [[ $output == *"no   each rank evaluates all 53 rows: each row counts 3 times"* ]]
    [[ $output == *"no   rank 0 trains without dropout from step 6 on"* ]]
    [ "$(grep -c 'hint: ' <<<"$output")" -ge 3 ]
    [[ $output != *"Done."* ]]
}

@test "what a lab's text demands or forbids has a wrong program, which is refused" {
    tests/labs/forbidden.py
    mkdir -p "$BATS_TEST_TMPDIR/tree/teach" "$BATS_TEST_TMPDIR/tree/tests"
    cp -r tests/labs "$BATS_TEST_TMPDIR/tree/tests"
    cp -r teach/lab "$BATS_TEST_TMPDIR/tree/teach"
    cd "$BATS_TEST_TMPDIR/tree"
    sed -i '/^02b port/d' tests/labs/programs.txt
    sed -i '/^ring part/d' tests/labs/forbidden.txt
    sed -i 's/A frozen one is not sent/A frozen one is never sent/' teach/lab/reducer.txt
    run tests/labs/forbidden.py
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 4 ]
    [[ $output == *"no program of lab-02b makes this mistake: port"* ]]
    [[ $output == *"lab-ring: no line for: No part is longer than count / n, rounded up;"* ]]
    [[ $output == *"reducer.txt does not say: A frozen one is not sent"*"lab-reducer: no line for: A frozen one is never sent"* ]]
}

# bats test_tags=slow
@test "of each lab one wrong program, by chance, is rejected with its hint, and a right one is accepted" {
    needs_journals
    tests/labs/try_programs.py --sample "$SEED" # all of them: make check-labs
}

@test "what is compiled outside the tree reads its config.yaml, and no other; more lines than are needed are no mistake" {
    needs_journals
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree" "$BATS_TEST_TMPDIR/tmp"
    for name in *; do
        case $name in
        config.yaml | lab) ;;
        0[1-5]_*) cp -rp "$name" "$tree" ;; # a program looks for the file where it really lies
        *) ln -s "$PWD/$name" "$tree" ;;
        esac
    done
    cd "$tree"
    export LAB=lab TMPDIR=$BATS_TEST_TMPDIR/tmp PLAIN=1
    echo 'batch_size: 16' >config.yaml
    echo 'of a stranger' >"$TMPDIR/config.yaml"
    solve 02a
    for i in $(seq 30); do echo "// $i" >>"$LAB/02a/train.c"; done
    judge 0 02a
    [[ $output == *"     82 lines are changed, and 60 are enough"*"Done."* ]]
    [[ "$(lab/02a/train --nproc 1 --max-steps 1)" == *"Batchsize: 16 "* ]]
    [[ "$(tools/break.sh 01 's/^/ /' --max-steps 1)" == *"Batchsize: 16 "* ]]
}

@test "what is compiled outside the tree is compiled as the library was" {
    mkdir "$BATS_TEST_TMPDIR/build"
    teach/lab.sh 02a >/dev/null
    plan() { # VARIABLE...: how make check-lab would compile, a line for each way
        printf '%s\n' CUDA=0 NCCL=0 MPI=0 CC=gcc 'CFLAGS=-O1 -g' OPENMP= MARCH=x86-64-v2 >"$BATS_TEST_TMPDIR/build/parts"
        env -u MAKEFLAGS make -n V=1 check-lab BUILD="$BATS_TEST_TMPDIR/build" "$@" |
            sed -n '/nvcc/p; / -c -o .*common.base/{s/ -M.* -march/ -march/; s/ -DVERSION=[^ ]*//; s/ -c .*//; p}' | sort -u
    }
    [ "$(plan)" = 'gcc -I. -O1 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror=implicit-function-declaration -march=x86-64-v2 -Wconversion -Wno-sign-conversion' ]
    [ "$(plan MARCH=x86-64-v3)" = 'gcc -I. -O1 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror=implicit-function-declaration -march=x86-64-v3 -Wconversion -Wno-sign-conversion' ]
}

@test "a build without extras keeps no journals, and check-lab says that it cannot judge" {
    grep -qx EXTRAS=0 "${BUILD:-build}/parts" || skip "this build has extras"
    solve 02a
    judge 2
    [[ $output == *"cannot judge: a build without extras/ keeps no journals: make EXTRAS=1"* ]]
}

@test "a step that is none, and a lab that is not there, are named" {
    run teach/lab.sh 07
    [ "$status" -eq 2 ]
    [[ $output == *"'07' is none of 02 02a 02b 02c 03 04 05 zero1 zero2 zero3 zero4 zero5 localsgd diloco tensor_parallel reconfigure reducer ring ring5 sampler snapshot store capstone" ]]
    run make lab-07 BUILD="$BATS_TEST_TMPDIR/build"
    [ "$status" -eq 2 ]
    [[ $output == *"'07' is none of 02 02a 02b 02c 03 04 05 zero1 zero2 zero3 zero4 zero5 localsgd diloco tensor_parallel reconfigure reducer ring ring5 sampler snapshot store capstone"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/build" ] # before anything is built
    judge 2
    [[ $output == *"nothing is begun: make lab-02a"* ]]
    run make check-lab BUILD="$BATS_TEST_TMPDIR/build"
    [[ $output == *"nothing is begun: make lab-02a"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/build" ]
}

@test "make lab lists the labs; a chapter's 0 may be left out; LAB= chooses" {
    run teach/lab.sh 2b
    [[ ${lines[0]} == "$LAB/02b/train.c is 02_multi_gpu_spawn/train_a_spawn.c. Turn it into step 02b:" ]]
    run make -s lab
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 23 ]
    [[ ${lines[2]} == "02b              begun  The ranks meet: "* && ${lines[3]} == "02c              open   All ranks shuffle"* ]]
    run env LAB=02b teach/lab.sh check # what make check-lab LAB=02b runs
    [[ $output == *"there is no lab/02b/train.c yet: make lab-02b" || $output == *"is still the program before"* ]]
    run env LAB=2b teach/lab.sh check
    [[ $output == *"there is no lab/02b/train.c yet: make lab-02b" || $output == *"is still the program before"* ]]
}

@test "on a terminal, long lines of labs, traps and lists break at words, and the status stays" {
    run script -qec "stty cols 60; teach/wrapped.sh teach/lab.sh list; teach/wrapped.sh sh -c 'echo; exit 3'" /dev/null
    [ "$status" -eq 3 ]
    output=${output//$'\r'/}
    [ "$(wc -L <<<"$output")" -le 60 ]
    [[ $output == *"reducer          open   Write the Reducer yourself:"$'\n'"                        gradients leave while"* ]]
    [ "$(teach/wrapped.sh teach/lab.sh list | wc -l)" -eq 23 ] # as they are, into a pipe
    ! grep -n '@teach/\(lab.sh\|trap.py [^l]\|progress.py |\)' teach/rules.mk
}

@test "check-lab builds what its lab needs, and no more" {
    needs() { # the programs that make would build from nothing
        env -u MAKEFLAGS make -nB check-lab BUILD="$BATS_TEST_TMPDIR/build" | grep -o '0[1-5]_[a-z_]*/train\b\|beyond/zero/train_zero1\b' | sort -u | paste -sd ' '
    }
    [ -z "$(needs)" ] # nothing is begun
    teach/lab.sh 02b >/dev/null
    [ "$(needs)" = 02_multi_gpu_spawn/train ]
    touch -d '2 seconds ago' "$LAB/02b/train.c"
    teach/lab.sh 03 >/dev/null
    needs
    [ "$(needs)" = '03_torchrun_env/train 04_slurm_multinode/train' ] # the nodes are 04's
    touch -d '1 second ago' "$LAB/03/train.c"
    teach/lab.sh zero1 >/dev/null
    [ "$(needs)" = '02_multi_gpu_spawn/train beyond/zero/train_zero1' ]
}

@test "make progress and the lists may be cut by head; make in docs/ says where the Makefile is" {
    for list in progress lab trap quiz; do
        make -s $list 2>"$BATS_TEST_TMPDIR/said" | : # nobody reads it
        echo "$list: $(cat -A "$BATS_TEST_TMPDIR/said")"
        [ ! -s "$BATS_TEST_TMPDIR/said" ]
    done
    run make -C docs 01
    [[ $status -eq 2 && $output == *"the Makefile is at the top of the repository: cd .. && make 01"* ]]
}
