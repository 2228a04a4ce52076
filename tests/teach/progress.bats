#!/usr/bin/env bats
# make progress: how far one is. make reset-...: a lab, a trap or a quiz begins anew, and nothing written is lost.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab
}

# line TEXT: a line of the progress, with its columns put together.
line() {
    teach/progress.py | tr -s ' ' | sed 's/^ //' >"$BATS_TEST_TMPDIR/progress"
    cat "$BATS_TEST_TMPDIR/progress"
    grep -qxF -- "$1" "$BATS_TEST_TMPDIR/progress"
}

@test "all is open at first; what is begun and done is listed" {
    line '02 Many devices open 0 of 4 02a open, 02b open, 02c open, 02 open, reducer open, ring open, ring5 open, sampler open'
    line 'ZeRO and FSDP open 0 of 3 zero1 open, zero2 open, zero3 open, zero4 open, zero5 open'
    line 'Local SGD open 0 of 3 localsgd open, diloco open'
    line 'solved none'
    line 'begun none'
    line 'Next: make quiz-00'
    [ "$(grep -c ' open 0 of ' "$BATS_TEST_TMPDIR/progress")" -eq "$(ls teach/quiz/*.txt | wc -l)" ] # all chapters
    [ ! -e "$LAB" ] # nothing is begun by looking

    teach/lab.sh 02b >/dev/null
    teach/lab.sh sampler >/dev/null
    teach/trap.py 03 >/dev/null
    teach/trap.py 04 >/dev/null
    touch "$LAB/trap_04/solved"
    line '02 Many devices begun 0 of 4 02a open, 02b begun, 02c open, 02 open, reducer open, ring open, ring5 open, sampler begun'
    line 'begun 03'
    line 'solved 04'
    mkdir -p "$LAB/quiz_04"
    printf '1 right 3\n2 wrong SLURM_PROCID\n' >"$LAB/quiz_04/answers.txt"
    line '04 Several nodes begun 1 of 3 04 open'
    printf '1 right 3\n2 right RANK\n3 right 48\n' >"$LAB/quiz_04/answers.txt"
    line '04 Several nodes begun 3 of 3 04 open'
    teach/lab.sh 04 >/dev/null
    touch "$LAB/04/done" # so does a check that passes: lab.bats
    line '04 Several nodes done 3 of 3 04 done'
    line 'You wrote 04 of ddp.c.'
    touch "$LAB/02b/done" "$LAB/sampler/done"
    line 'You wrote 02b, 04 and sampler of ddp.c. make mine trains with it.'
    rm "$LAB/02b/done" "$LAB/sampler/done"
    mkdir "$LAB/quiz_00"
    printf '1 right 23\n2 right 3\n3 right 2\n' >"$LAB/quiz_00/answers.txt"
    line '00 Setup done 3 of 3'
    line 'Next: make quiz-01'
}

@test "what was changed after its check is no longer done, and Next is in the chapter of the last change" {
    teach/lab.sh 04 >/dev/null
    touch "$LAB/04/done"
    line '04 Several nodes begun 0 of 3 04 done'
    line 'Next: make quiz-04'
    teach/lab.sh list | grep -q '^04 *done '
    touch -d '+5 seconds' "$LAB/04/train.c"
    line '04 Several nodes begun 0 of 3 04 begun'
    teach/lab.sh list | grep -q '^04 *begun '
    mkdir "$LAB/quiz_04"
    printf '1 right 1\n2 right 2\n3 right 3\n' >"$LAB/quiz_04/answers.txt"
    line 'Next: make lab-04'
    touch -d '+9 seconds' "$LAB/04/done"
    line 'Next: make quiz-05'
}

@test "a reset begins anew, and keeps what was written" {
    run teach/progress.py reset 02c # nothing is there yet
    [ "$status" -eq 0 ]
    [[ $output == "$LAB/02c/train.c is 02_multi_gpu_spawn/train_b_all_reduce.c. Turn it into step 02c:"* ]]
    [ ! -e "$LAB/aside" ]
    for i in 1 2; do
        echo "// mine, $i" >>"$LAB/02c/train.c"
        touch "$LAB/02c/done"
        run teach/progress.py reset 02c
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == "What you wrote is kept in $LAB/aside/02c_$i"* ]]
        cmp 02_multi_gpu_spawn/train_b_all_reduce.c "$LAB/02c/train.c"
        [ ! -e "$LAB/02c/done" ]
        [ "$(tail -n 1 "$LAB/aside/02c_$i/train.c")" = "// mine, $i" ]
    done

    teach/trap.py 03 >/dev/null
    echo '// mine' >"$LAB/trap_03/train.c"
    teach/progress.py reset trap-03 >/dev/null
    [ "$(cat "$LAB/aside/trap_03_1/train.c")" = '// mine' ]
    [[ $(<"$LAB/trap_03/train.c") != *mine* ]]
    mkdir "$LAB/quiz_02"
    printf '1 right 5\n' >"$LAB/quiz_02/answers.txt"
    teach/progress.py reset quiz-02
    [ ! -e "$LAB/quiz_02" ]
    [ -s "$LAB/aside/quiz_02_1/answers.txt" ]

    # What lies aside is not taken for what is worked on.
    touch "$LAB/aside/02c_1/train.c" "$LAB/aside/trap_03_1/train.c"
    rm -r "$LAB/02c" "$LAB/trap_03"
    run teach/lab.sh check
    [[ $output == *"nothing is begun"* ]]
    run teach/trap.py check
    [[ $output == *"nothing is begun"* ]]
}

@test "make reset-... of what is none is an error that lists what there is" {
    for name in 07 trap-77 quiz-99; do
        run teach/progress.py reset $name
        [ "$status" -eq 2 ]
        [[ $output == *"'$name' is none of 02 02a 02b "* ]]
    done
    run make reset-trap-77
    [ "$status" -eq 2 ]
    [[ $output == *"'trap-77' is none of"* ]]
    run teach/progress.py reset
    [ "$status" -eq 2 ]
}
