#!/usr/bin/env bats
# make lab-zero1 to lab-zero3: our programs are accepted, wrong ones rejected with the hint that names the mistake.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab LAB_SECONDS=120
}

# judge STAGE STATUS [SED]: of our program, changed.
judge() {
    teach/lab.sh "$1" >/dev/null || true
    cp "beyond/zero/train_$1.c" "$LAB/$1/train.c"
    sed -i "${3:-}" "$LAB/$1/train.c"
    run teach/lab.sh check "$1"
    echo "$output"
    [ "$status" -eq "$2" ]
}

# wrong STAGE HINT SED
wrong() {
    judge "$1" 1 "$3"
    ! cmp -s "beyond/zero/train_$1.c" "$LAB/$1/train.c" || false
    hint=$(sed -n "s/^hint $2: //p" "teach/lab/$1.txt")
    [ -n "$hint" ]
    [[ $output == *"no   "*"hint: $hint"* ]]
}

@test "our own three pass" {
    for stage in zero1 zero2 zero3; do
        run teach/lab.sh $stage
        [[ $output == *"Turn it into step $stage"* ]]
        judge $stage 0
        [[ $output == *"yes  its files are ours"*"yes  held: "*"yes  sent: "*"Done."* ]]
    done
    touch "$LAB/zero2/train.c"
    run teach/lab.sh check
    [[ $output == "checking $LAB/zero2 "* ]]
}

@test "wrong ones are rejected, with a hint" {
    wrong zero1 mean 's/REDUCE_MEAN/REDUCE_SUM/'
    wrong zero1 count 's/^    model->step++;//'
    wrong zero1 early '/^        work_wait(unit->work);/{h;d}; /^        zero_step(zero, unit)/G'
    wrong zero1 files '/^        work_wait(zero->unit\[u\].work);/d; s/^    for (int u = 0; u < zero->num_units; u++)$/    (void)0;/'
    wrong zero1 unshard '/zero_unshard/d'
    wrong zero1 run 's/^        if (is_due)/        if (is_due \&\& rank == 0)/'
    wrong zero1 sent 's/^        zero_step(zero, unit);.*/        work_wait(all_gather_async(zero->pg, unit->own_grads, unit->grads, unit->share, FLOAT32));\n&/'
    wrong zero2 files 's/^        keep_own_grads(zero, unit - 2);.*/        unit[-2].grads = NULL;/'
    wrong zero3 unshard '/zero_unshard/d'
    wrong zero3 evaluation 's/batches < most/false/'
    wrong zero3 files 's/^    unit->params = NULL;//'
    wrong zero3 build 's/ZERO_PARAMS/ZERO_EVERYTHING/'
}
