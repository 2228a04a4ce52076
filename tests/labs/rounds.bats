#!/usr/bin/env bats
# make lab-localsgd and lab-diloco: right programs are accepted, wrong ones rejected with the hint that names the mistake.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab
}

# judge LAB STATUS SED...: of the program that a learner may write without a library, changed.
judge() {
    lab=$1 due=$2 && shift 2
    mkdir -p "$LAB/$lab"
    sed -f tests/labs/localsgd.sed 02_multi_gpu_spawn/train.c >"$LAB/right.c"
    [ "$lab" = localsgd ] || { sed -f tests/labs/diloco.sed "$LAB/right.c" >"$LAB/next.c" && mv "$LAB/next.c" "$LAB/right.c"; }
    sed "$@" "$LAB/right.c" >"$LAB/$lab/train.c"
    run teach/lab.sh check "$lab"
    echo "$output"
    [ "$status" -eq "$due" ]
}

# wrong LAB HINT SED
wrong() {
    judge "$1" 1 "$3"
    ! cmp -s "$LAB/right.c" "$LAB/$1/train.c" || false
    hint=$(sed -n "s/^hint $2: //p" "teach/lab/$1.txt")
    [ -n "$hint" ]
    [[ $output == *"no   "*"hint: $hint"* ]]
}

@test "our own two pass, and other ways" {
    for lab in localsgd diloco; do
        run teach/lab.sh $lab
        [[ $output == *"Turn it into step $lab"*"About "*" minutes"* ]]
        cp "$(tools/stepdiff.sh --pairs | sed -n "s/^$lab: [^ ]* //p")" "$LAB/$lab/train.c"
        run teach/lab.sh check $lab
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *"yes  its weights are ours"*"yes  a round sends"*"yes  it trains with three ranks"*"Done."* ]]
        judge $lab 0 '' # no library, and no counter of its own
    done
    # a sum that is divided; in the loop, and not in run_batch; two halves, of which the first is a reduce and a broadcast
    judge localsgd 0 's/^    all_reduce(pg, model->params, model->numel, FLOAT32, REDUCE_MEAN);/    all_reduce(pg, model->params, model->numel, FLOAT32, REDUCE_SUM);\n    for (size_t i = 0; i < model->numel; i++)\n        model->params[i] \/= (float)pg->world_size;/'
    judge localsgd 0 '/^    if (model->step % PERIOD == 0)/,+1d; s/^    model_backward/    (void)pg;\n&/; s/^            metrics_step.*/&\n            if (model.step % PERIOD == 0)\n                end_round(\&model, \&pg);/'
    judge localsgd 0 's/^    all_reduce(pg, model->params.*/    const size_t half = model->numel \/ 2;\n    reduce(pg, model->params, half, FLOAT32, REDUCE_MEAN, 0);\n    broadcast(pg, model->params, half, FLOAT32, 0);\n    all_reduce(pg, model->params + half, model->numel - half, FLOAT32, REDUCE_MEAN);/'
    # the ranks average their weights, and take the change from the mean
    judge diloco 0 's/^        change\[i\] = begin\[i\] - params\[i\];/        change[i] = params[i];/; s/^        velocity\[i\] = .*/        change[i] = begin[i] - change[i];\n&/'
}

@test "wrong ways to average weights" {
    run teach/lab.sh localsgd
    run teach/lab.sh check localsgd
    [[ $output == *"is still the program before"*"hint: begin in run_batch"* ]]
    wrong localsgd build 's/FLOAT32, REDUCE_MEAN/REDUCE_MEAN/'
    wrong localsgd mean 's/^    all_reduce(.*REDUCE_MEAN);$/    all_reduce(pg, model->params, model->numel, FLOAT32, REDUCE_SUM);/'
    wrong localsgd when 's/PERIOD 8/PERIOD 4/'
    wrong localsgd when 's/^    if (model->step % PERIOD == 0)/    if (model->step % PERIOD == 1)/'
    wrong localsgd every 's/PERIOD 8/PERIOD 1/'
    wrong localsgd never '/^    if (model->step % PERIOD == 0)/,+1d; s/^    model_backward/    (void)pg;\n&/'
    wrong localsgd before '/^    if (model->step % PERIOD == 0)/,+1d; s/^    optim_step(optim);/    if (model->step % PERIOD == PERIOD - 1)\n        end_round(model, pg);\n&/'
    wrong localsgd gradients 's/all_reduce(pg, model->params/all_reduce(pg, model->grads/'
    wrong localsgd gradients 's/^    optim_step(optim);/    all_reduce(pg, model->grads, model->numel, FLOAT32, REDUCE_MEAN);\n&/'
    wrong localsgd part 's/model->params, model->numel,/model->params, model->numel - 1,/'
    wrong localsgd part 's/model->params, model->numel,/model->params, model->parameter[0].numel,/'
    wrong localsgd type 's/FLOAT32, REDUCE_MEAN/INT32, REDUCE_MEAN/'
    wrong localsgd end '/^        if (model.step % PERIOD != 0)/,+1d'
    wrong localsgd run 's/^        if (model.step % PERIOD != 0)/        if (model.step % PERIOD != 0 \&\& rank == 0)/'
    wrong localsgd sent 's/^    all_reduce(pg, model->params.*/&\n&/'
    wrong localsgd broadcast '/^    broadcast(&pg/d'
    wrong localsgd files 's/^    all_reduce(pg, model->params.*/&\n    for (size_t i = 0; i < model->numel; i++)\n        model->params[i] *= 0.99f;/'
}

@test "wrong outer steps" {
    wrong diloco sign 's/begin\[i\] - params\[i\]/params[i] - begin[i]/'
    wrong diloco nesterov 's/(change\[i\] + 0.9f \* velocity\[i\])/velocity[i]/'
    wrong diloco nesterov 's/0.9f \* velocity\[i\] + change/0 * velocity[i] + change/; s/(change\[i\] + 0.9f \* velocity\[i\])/change[i]/'
    wrong diloco outer 's/begin\[i\] -= .*/begin[i] -= change[i];/'
    wrong diloco rate 's/-= 0.7f \*/-=/'
    wrong diloco mean 's/^    all_reduce(pg, change, model->numel, FLOAT32, REDUCE_MEAN);$/    all_reduce(pg, change, model->numel, FLOAT32, REDUCE_SUM);/'
    wrong diloco velocity 's/^    float \*params = .*/&\n    memset(velocity, 0, model->numel * sizeof *velocity);/'
    wrong diloco begin 's/^        begin\[i\] -= \(.*\);/        params[i] = begin[i] - \1;/; /^        params\[i\] = begin\[i\];/d'
    wrong diloco empty 's/^        if (model.step % PERIOD != 0)/        if (true)/'
    wrong diloco never 's/^    all_reduce(pg, change.*/    (void)pg;/'
    wrong diloco when 's/PERIOD 8/PERIOD 6/'
    wrong diloco end '/^        if (model.step % PERIOD != 0)/,+1d'
    wrong diloco part 's/^    all_reduce(pg, change, model->numel,/    all_reduce(pg, change, model->numel \/ 2,/'
    wrong diloco sent 's/^    all_reduce(pg, change.*/&\n    all_reduce(pg, velocity, model->numel, FLOAT32, REDUCE_MEAN);/'
    wrong diloco broadcast '/^    broadcast(&pg/d; s/^    Metrics metrics;/    begin_round(\&model);\n&/'
    wrong diloco files '/^        params\[i\] = begin\[i\];/d'
}
