/* A signal to one rank: all ranks stop between the same two steps, never alone. */
#include <signal.h>

#include "05_fault_tolerance/stop.h"
#include "common/base/log.h"
#include "tests/common/save/checkpoint_run.h"
#include "tests/helpers/ranks.h"

enum { ALL = -1, NOBODY = -2, NUM_STEPS = 12 };

/* The rank and the time of a signal. */
typedef struct {
    int rank; // or ALL
    int signal;
    int step; // steps before the signal
    int pause; // checks without a step then, as at the end of an epoch with an evaluation
    int last; // total steps
    int leaves; // steps before it stops (0 if it does not)
} Plan;

static void train(Rank *rank)
{
    const Plan *plan = rank->context;
    Run run;
    ProcessGroup pg;
    Reducer reducer;
    StopRequest stop;
    run_init(&run, "linear", "sgd", 0.9, 1);
    run.args.max_steps = (uint64_t)plan->last;
    rank_join(rank, &pg);
    reducer_init(&reducer, &rank->args, &pg, run.model.grads, run.model.parameter,
                 run.model.num_parameters);
    stop_listen();
    stop_joined();
    stop_init(&stop, &run.checkpoint, &reducer);

    while (run.model.step < run.args.max_steps) {
        if ((int)run.model.step == plan->step && (plan->rank == ALL || plan->rank == pg.rank))
            raise(plan->signal);
        bool leave = stop_agreed(&stop);
        for (int i = 0; i < plan->pause && (int)run.model.step == plan->step; i++)
            leave = leave || stop_agreed(&stop); // rank by rank: nothing has been exchanged
        if (leave)
            break;
        for (int i = run.model.num_parameters - 1; i >= 0; i--)
            reducer_mark_ready(&reducer, i);
        reducer_finalize(&reducer);
        optim_step(&run.optim);
    }
    const double steps = (double)run.model.step;
    CHECK(stop_agreed(&stop) == (plan->leaves > 0 && plan->leaves < plan->last), "agreed?");
    CHECK(all_reduce_scalar(&pg, steps, REDUCE_MIN) == steps &&
              all_reduce_scalar(&pg, steps, REDUCE_MAX) == steps,
          "ranks leave after different steps, this one after %g", steps);
    CHECK(steps == (plan->leaves > 0 ? plan->leaves : plan->last), "left after %g steps", steps);
    reducer_free(&reducer);
    process_group_destroy(&pg);
    run_free(&run);
}

static void test_all_leave_together(void **state)
{
    (void)state;
    static const Plan plans[] = {
        { NOBODY, 0, 0, 0, NUM_STEPS, 0 },
        { 0, SIGTERM, 3, 0, NUM_STEPS, 4 }, // sent with the next step
        { 2, SIGUSR1, 3, 0, NUM_STEPS, 4 },
        { 2, SIGUSR2, 3, 0, NUM_STEPS, 4 },
        { 1, SIGINT, 3, 0, NUM_STEPS, 4 },
        { ALL, SIGTERM, 3, 0, NUM_STEPS, 4 },
        { 1, SIGTERM, 0, 0, NUM_STEPS, 1 }, // before the first step
        { 1, SIGTERM, 3, 3, NUM_STEPS, 4 },
        { 1, SIGTERM, NUM_STEPS - 1, 0, NUM_STEPS, 0 }, // with the last step: the run is done
    };
    for (size_t i = 0; i < LENGTH(plans); i++)
        for (int world_size = 1; world_size <= 5; world_size += 2)
            if (plans[i].rank < world_size)
                ranks_run_well(world_size, train, (void *)&plans[i]);
}

/* The gradients and the flag sent with them are means, and nothing else changes. */
static void request_float(Rank *rank)
{
    ProcessGroup pg;
    Run run;
    Reducer reducer;
    StopRequest stop;
    run_init(&run, rank->context, "sgd", 0.9, 1);
    rank_join(rank, &pg);
    reducer_init(&reducer, &rank->args, &pg, run.model.grads, run.model.parameter,
                 run.model.num_parameters);
    stop_init(&stop, &run.checkpoint, &reducer);
    float *last = stop.request;
    CHECK(last == run.model.grads + run.model.numel, "it does not sit behind the gradients");
    for (int pass = 0; pass < 3; pass++) {
        for (size_t k = 0; k < run.model.numel; k++)
            run.model.grads[k] = (float)(pg.rank + (int)(k % 7));
        *last = (float)(10 * pg.rank + pass);
        for (int i = run.model.num_parameters - 1; i >= 0; i--)
            reducer_mark_ready(&reducer, i);
        reducer_finalize(&reducer);
        for (size_t k = 0; k < run.model.numel; k++)
            CHECK(run.model.grads[k] == 1 + (float)(k % 7), "gradient %zu", k);
        CHECK(*last == 10 + pass, "the scalar is %g", (double)*last);
        model_zero_grad(&run.model);
        CHECK(*last == 10 + pass, "it was taken for a gradient");
    }
    reducer_free(&reducer);
    process_group_destroy(&pg);
    run_free(&run);
}

static void test_request_float(void **state)
{
    (void)state;
    ranks_run_well(3, request_float, "linear");
    ranks_run_well(3, request_float, "cnn");
}

static void interrupt(const void *seconds)
{
    stop_listen();
    raise(SIGINT);
    raise(SIGINT); // a wrapper's
    usleep((useconds_t)(1e6 * *(const double *)seconds));
    raise(SIGTERM); // launchers repeat themselves
    raise(SIGINT);
}

/* A second Ctrl-C ends the process at once. */
static void test_second_interrupt(void **state)
{
    (void)state;
    int status = -1;
    for (int i = 0; i < 5 && status != 0; i++) // a delay may look like a second Ctrl-C
        status = child_run(interrupt, &(double){ 0 });
    assert_int_equal(status, 0);
    assert_int_equal(child_run(interrupt, &(double){ 0.5 }), 128 + SIGINT);
}

/* Launchers repeat their signals, which must not delay the stop. */
static void stopped_alone(const void *context)
{
    (void)context;
    stop_listen();
    for (int i = 0; i < 20; i++) {
        raise(i % 2 == 0 ? SIGUSR1 : SIGTERM);
        usleep(250000);
    }
}

static void stopped_and_joins(const void *context)
{
    (void)context;
    stop_listen();
    raise(SIGUSR1);
    stop_joined();
    raise(SIGTERM);
    CHECK(alarm(0) == 0, "something would still end it");
}

static void test_before_the_group(void **state)
{
    (void)state;
    assert_dies_saying(stopped_alone, NULL, EXIT_STOPPED, "SIG",
                       ": ends before the group has formed");
    assert_int_equal(child_run(stopped_and_joins, NULL), 0);
}

static void ignored(const void *context)
{
    (void)context;
    signal(SIGINT, SIG_IGN);
    stop_listen();
    struct sigaction action;
    sigaction(SIGINT, NULL, &action);
    CHECK(action.sa_handler == SIG_IGN, "no longer ignored");
}

static void test_ignored(void **state)
{
    (void)state;
    assert_int_equal(child_run(ignored, NULL), 0);
}

static void test_training_done(void **state)
{
    (void)state;
    Run run;
    run_init(&run, "linear", "sgd", 0, 5);
    run_step(&run);
    run.sampler.epoch = 9;
    assert_false(training_done(&run.checkpoint));
    run.args.max_steps = 1;
    assert_true(training_done(&run.checkpoint));
    run.args.max_steps = 2;
    sampler_seek(&run.sampler, run.sampler.total); // the last epoch is complete
    assert_true(training_done(&run.checkpoint));
    run_free(&run);
}

int main(void)
{
    signal(SIGINT, SIG_DFL); // because a shell makes background jobs ignore it
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_leave_together), cmocka_unit_test(test_training_done),
        cmocka_unit_test(test_request_float),      cmocka_unit_test(test_second_interrupt),
        cmocka_unit_test(test_before_the_group),   cmocka_unit_test(test_ignored),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
