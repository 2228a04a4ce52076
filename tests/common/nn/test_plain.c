/* The device under test against --device plain: the same losses and weights except for rounding,
 * step by step, with dropout. The bits of plain do not depend on the number of threads. */
#include "tests/common/nn/models.h"

#include <math.h>

#include "common/nn/optim.h"

enum { STEPS = 4 };

/* A training's results. */
typedef struct {
    float loss[STEPS];
    size_t numel;
    double *params; // in PyTorch's layout
} Run;

static Run train(const char *device, const char *model, int threads)
{
    setenv("TEST_DEVICE", device, 1);
    Subject subject;
    Optimizer optim;
    subject_init(&subject, model, 4, threads, 0);
    optim_init(&optim, &subject.args, &subject.model, 1);
    Run run = { .numel = subject.model.numel };
    for (int step = 0; step < STEPS; step++) {
        const Batch batch = { random_dataset(model), order, ROWS - step, 0, 40, 3 };
        model_zero_grad(&subject.model);
        model_forward(&subject.model, &batch);
        run.loss[step] = model_loss(&subject.model);
        model_backward(&subject.model);
        optim_step(&optim);
    }
    run.params = exported_all(&subject, subject.model.params);
    optim_free(&optim);
    subject_free(&subject);
    return run;
}

static void check_device(const char *model)
{
    const char *device = strdup(test_device());
    Run ours = train(device, model, 2), plain = train("plain", model, 1);
    for (int step = 0; step < STEPS; step++)
        assert_true(fabsf(ours.loss[step] - plain.loss[step]) < 1e-4f * plain.loss[step]);
    double error = 0, largest = 0;
    for (size_t i = 0; i < plain.numel; i++) {
        error = fmax(error, fabs(ours.params[i] - plain.params[i]));
        largest = fmax(largest, fabs(plain.params[i]));
    }
    if (!(error < 1e-4 * largest))
        fail_msg("%s: error %g of weights up to %g", model, error, largest);
    for (int threads = 2; threads <= 3; threads++) {
        Run again = train("plain", model, threads);
        assert_memory_equal(again.loss, plain.loss, sizeof plain.loss);
        assert_memory_equal(again.params, plain.params, plain.numel * sizeof *plain.params);
        free(again.params);
    }
    setenv("TEST_DEVICE", device, 1);
    free((void *)device);
    free(ours.params);
    free(plain.params);
}

static void test_plain(void **state)
{
    (void)state;
    check_device("linear");
    check_device("cnn");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_plain) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
