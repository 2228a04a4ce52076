#!/usr/bin/env bats
# make lab-zero1 to lab-zero5: our programs are accepted, wrong ones rejected with the hint that names the mistake.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab LAB_OURS=$BATS_FILE_TMPDIR/ours LAB_SECONDS=120
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

@test "our own five pass, and another way" {
    for stage in zero1 zero2 zero3 zero4 zero5; do
        run teach/lab.sh $stage
        [[ $output == *"Turn it into step $stage"* ]]
        judge $stage 0
        [[ $output == *"yes  its files are ours"*"yes  what a rank holds is "*"yes  what a rank sends is "*"Done."* ]]
    done
    # the share is rounded into memory of its own, and the small layers' all_reduce is written first
    judge zero4 0 's/^    unit->work = all_gather_async(zero->pg, own, half.*/    static uint16_t mine[1 << 21];\n    memcpy(mine, own, unit->share * sizeof *own);\n    unit->work = all_gather_async(zero->pg, mine, half, unit->share, BFLOAT16);/; s/^#include <signal.h>/&\n#include <string.h>/'
    judge zero5 0 's/^    if (i == 2 \* unit->first_layer)/    if (i != 2 * unit->first_layer)\n        return;\n&/'
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

@test "wrong ways to gather in 16 bits" {
    wrong zero4 half 's/uint16_t \*half = .*/float *half = unit->params, *own = unit->own_params;/; s/BFLOAT16/FLOAT32/; /^    zero_widen/d'
    wrong zero4 files '/^    zero_widen/d'
    wrong zero4 files 's/^    zero_widen(zero, unit);/&\n    if (zero->pg->rank == 0)\n        unit->params[0] = unit->own_params[0];/'
    wrong zero4 run 's/unit->share, BFLOAT16/unit->share - (zero->pg->rank == 1), BFLOAT16/'
    wrong zero4 files 's/\*own = half + (size_t)zero->pg->rank \* unit->share/*own = half + (zero->pg->rank > 1 ? 0 : (size_t)zero->pg->rank * unit->share)/'
    wrong zero4 evaluation 's/batches < most/false/'
    wrong zero4 unshard '/zero_unshard/d'
    wrong zero4 sent 's/^    unit->params = NULL;/&\n    if (!backward) {\n        gather_layer(context, layer);\n        zero_widen(context, unit);\n        unit->params = NULL;\n    }/; s/^    (void)backward;//'
}

@test "wrong ways to leave small layers whole" {
    wrong zero5 small 's/^    if (i == 2 \* unit->first_layer)/    if (i == 2 * unit->first_layer \&\& !unit->replicated)/; s/^    work_wait(done->work);/    if (!done->replicated)\n        work_wait(done->work);/'
    wrong zero5 early 's/^    work_wait(done->work);/    if (!done->replicated)\n        work_wait(done->work);/'
    wrong zero5 mean 's/FLOAT32, REDUCE_MEAN);$/FLOAT32, REDUCE_SUM);/'
    wrong zero5 small 's/ZERO_LARGE/ZERO_PARAMS/'
    wrong zero5 small 's/^    if (!unit->replicated) .. else it stays here/    if (true)/'
    wrong zero5 count 's/^    model->step++;//'
}
