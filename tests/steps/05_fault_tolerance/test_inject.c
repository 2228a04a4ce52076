/* Injected faults: their syntax, their effects, and how --check-sync finds them. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "05_fault_tolerance/checks/check_sync.h"
#include "05_fault_tolerance/checks/inject.h"
#include "05_fault_tolerance/snapshot_folder.h"
#include "common/base/log.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

static void test_specs(void **state)
{
    (void)state;
    const struct {
        const char *text;
        Fault fault;
        const char *rest;
    } cases[] = {
        { "kill:1:20", { FAULT_KILL, 1, 20, 100, 0 }, "" },
        { "stop:0:1,exit:2:3", { FAULT_STOP, 0, 1, 100, 0 }, ",exit:2:3" },
        { "exit:12:1000000000@3", { FAULT_EXIT, 12, 1000000000, 100, 3 }, "" },
        { "slow:3:4", { FAULT_SLOW, 3, 4, 100, 0 }, "" },
        { "slow:3:4:50", { FAULT_SLOW, 3, 4, 50, 0 }, "" },
        { "slow:3:4:50@1,x", { FAULT_SLOW, 3, 4, 50, 1 }, ",x" },
        { "corrupt-grad:0:7", { FAULT_CORRUPT_GRAD, 0, 7, 100, 0 }, "" },
        { "bitflip:1:6@2", { FAULT_BITFLIP, 1, 6, 100, 2 }, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Fault fault;
        const char *rest = fault_parse(&fault, cases[i].text);
        assert_non_null(rest);
        assert_string_equal(rest, cases[i].rest);
        const Fault *due = &cases[i].fault;
        assert_true(fault.kind == due->kind && fault.rank == due->rank && fault.step == due->step);
        assert_true(fault.milliseconds == due->milliseconds && fault.attempt == due->attempt);
    }
    const char *const bad[] = {
        "",           "kill",        "kill:1",    "kill:1:",   "kill:1:0",
        "kill:-1:2",  "kill:1:2:3",  "kil:1:2",   "kills:1:2", "kill:1:2@",
        "kill:1:2 ",  "slow:1:2:",   "kill: 1:2", "kill::2",   "kill:1:99999999999999999999",
        "kill:1:2@x", "kill:1:2@1:3"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Fault fault;
        if (fault_parse(&fault, bad[i]) != NULL)
            fail_msg("\"%s\" is taken for a fault", bad[i]);
    }
}

static void test_restart_count(void **state)
{
    (void)state;
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    unsetenv("SLURM_RESTART_COUNT");
    assert_int_equal(restart_count(), 0);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    assert_int_equal(restart_count(), 2);
    setenv("SLURM_RESTART_COUNT", "3", 1);
    assert_int_equal(restart_count(), 5);
    setenv("SLURM_RESTART_COUNT", "3x", 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "-1", 1);
    assert_int_equal(restart_count(), 0);
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    unsetenv("SLURM_RESTART_COUNT");
}

/* A model's state after a step, with momentum. */
typedef struct {
    Args args;
    Device device;
    Model model;
    Optimizer optim;
} Subject;

static void subject_init(Subject *s, const char *inject)
{
    args_defaults(&s->args, "linear");
    s->args.threads = 1;
    s->args.momentum = 0.9;
    s->args.inject = inject;
    device_init(&s->device, &s->args, 0);
    Rng rng;
    rng_seed(&rng, 0);
    model_init(&s->model, &s->args, 8, &rng, &s->device);
    optim_init(&s->optim, &s->args, &s->model, 1);
}

static void subject_free(Subject *s)
{
    optim_free(&s->optim);
    model_free(&s->model);
    device_free(&s->device);
}

static void test_one_bit_flips_once(void **state)
{
    (void)state;
    Subject s;
    subject_init(&s, "bitflip:0:3,bitflip:1:2");
    float before[32];
    assert_true(s.model.numel <= 32);
    memcpy(before, s.model.params, s.model.numel * sizeof *before);
    Injector injector;
    injector_init(&injector, &s.args, 0, 2);
    injector_attach(&injector, &s.model);
    for (s.model.step = 1; s.model.step <= 5; s.model.step++) {
        injector_step(&injector);
        int bits = 0;
        for (size_t i = 0; i < s.model.numel; i++) {
            uint32_t x, y;
            memcpy(&x, &before[i], sizeof x);
            memcpy(&y, &s.model.params[i], sizeof y);
            bits += __builtin_popcount(x ^ y);
        }
        assert_int_equal(bits, s.model.step >= 3);
    }
    subject_free(&s);
}

static float seen; // a gradient, as the hook behind the injector sees it

static void look(void *context, int i)
{
    const Model *model = context;
    if (i == 0)
        seen = model->grads[model->parameter[0].offset];
}

static void test_gradients_are_spoilt_before_others_see_them(void **state)
{
    (void)state;
    Subject s;
    subject_init(&s, "corrupt-grad:0:2");
    model_set_grad_hook(&s.model, look, &s.model);
    Injector injector;
    injector_init(&injector, &s.args, 0, 1);
    injector_attach(&injector, &s.model);
    for (s.model.step = 0; s.model.step < 3; s.model.step++) {
        s.model.grads[s.model.parameter[0].offset] = 0.5f;
        s.model.grad_hook(s.model.grad_hook_context, 0);
        assert_true(seen == (s.model.step == 1 ? 500.0f : 0.5f));
    }
    subject_free(&s);
}

static void test_faults_wait_for_their_attempt(void **state)
{
    (void)state;
    Subject s;
    subject_init(&s, "kill:0:3,slow:0:3:1@2,exit:1:9,stop:0:8@2");
    Injector injector;
    injector_init(&injector, &s.args, 0, 2);
    assert_int_equal(injector.num_faults, 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "2", 1);
    injector_init(&injector, &s.args, 0, 2);
    unsetenv("TORCHELASTIC_RESTART_COUNT");
    assert_int_equal(injector.num_faults, 2);
    assert_int_equal(injector.fault[0].kind, FAULT_SLOW);
    subject_free(&s);
}

static void bad_rank_body(Rank *rank)
{
    rank->args.inject = "kill:0:1,kill:7:1";
    Injector injector;
    injector_init(&injector, &rank->args, rank->rank, rank->world_size);
}

static void test_a_rank_that_is_not_there(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(1, bad_rank_body, NULL, end);
    assert_int_equal(end[0].status, 2);
    const char *line = "--inject kill:0:1,kill:7:1: there is no rank 7, the last of 1 is 0\n";
    if (strstr(end[0].errors, line) == NULL)
        fail_msg("%s", end[0].errors);
}

/* A float of some ranks is changed after step 4; the ranks check after every second step. */
typedef struct {
    int array; // 0 for parameters, 1 for momentum
    size_t at;
    bool ranks[4];
    const char *line; // expected error (NULL if none)
} Change;

static void sync_body(Rank *rank)
{
    const Change *change = rank->context;
    Subject s;
    subject_init(&s, NULL);
    s.args.check_sync = 2;
    ProcessGroup pg;
    rank_join(rank, &pg);
    for (s.model.step = 1; s.model.step <= 6; s.model.step++) {
        if (s.model.step == 5 && change->ranks[rank->rank]) {
            float *array = change->array == 0 ? s.model.params : s.optim.state[0];
            array[change->at] += 0.25f;
        }
        check_sync(&s.args, &pg, &s.optim);
    }
    process_group_destroy(&pg);
    subject_free(&s);
}

static void test_replicas_that_differ_are_named(void **state)
{
    (void)state;
    const Change changes[] = {
        { 0,
          3,
          { false, false, true, false },
          "the replicas differ after step 6, first in weight: rank 2 differs from ranks 0, "
          "1 "
          "and 3\n" },
        { 0,
          20,
          { true, false, false, false },
          "first in bias: rank 0 differs from ranks 1 to 3\n" },
        { 1,
          19,
          { false, true, false, true },
          "first in weight.momentum_buffer: ranks 1 and 3 differ from ranks 0 and 2\n" },
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        RankEnd end[MAX_RANKS];
        ranks_run(4, sync_body, (void *)&changes[i], end);
        for (int rank = 0; rank < 4; rank++)
            expect_error(end, rank, changes[i].line);
    }
}

static void test_replicas_that_agree(void **state)
{
    (void)state;
    const Change none = { 0 }, all = { 0, 3, { true, true, true, true }, NULL };
    ranks_run_well(4, sync_body, (void *)&none);
    ranks_run_well(4, sync_body, (void *)&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs),
        cmocka_unit_test(test_restart_count),
        cmocka_unit_test(test_one_bit_flips_once),
        cmocka_unit_test(test_gradients_are_spoilt_before_others_see_them),
        cmocka_unit_test(test_faults_wait_for_their_attempt),
        cmocka_unit_test(test_a_rank_that_is_not_there),
        cmocka_unit_test(test_replicas_that_differ_are_named),
        cmocka_unit_test(test_replicas_that_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
