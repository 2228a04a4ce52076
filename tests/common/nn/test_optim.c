/* Each optimizer for ten steps against its definition in torch.optim, in double. */
#include <stdlib.h>

#include <math.h>
#include <string.h>

#include "common/nn/optim.h"
#include "tests/common/nn/on_device.h"
#include "tests/helpers/exact.h"

enum { STEPS = 10, STEPS_PER_EPOCH = 2 };

/* One parameter and its state, for the algorithms in PyTorch's documentation. */
typedef struct {
    double param, state[2];
} Number;

static void reference_step(Number *number, double grad, const Args *args, double lr, int step)
{
    double *a = &number->state[0], *b = &number->state[1];
    if (args->optimizer == OPTIM_ADAMW)
        number->param -= lr * args->weight_decay * number->param;
    else
        grad += args->weight_decay * number->param;

    if (args->optimizer == OPTIM_SGD) {
        *a = step == 1 ? grad : args->momentum * *a + grad;
        number->param -= lr * *a;
    } else if (args->optimizer == OPTIM_ADADELTA) {
        *a = 0.9 * *a + 0.1 * grad * grad;
        const double delta = sqrt(*b + 1e-6) / sqrt(*a + 1e-6) * grad;
        *b = 0.9 * *b + 0.1 * delta * delta;
        number->param -= lr * delta;
    } else {
        *a = 0.9 * *a + 0.1 * grad;
        *b = 0.999 * *b + 0.001 * grad * grad;
        const double mean = *a / (1 - pow(0.9, step)), square = *b / (1 - pow(0.999, step));
        number->param -= lr * mean / (sqrt(square) + 1e-8);
    }
}

/* Returns a step's learning rate, computed from the previous one's as in PyTorch's schedulers. */
static double reference_rate(const Args *args, int step)
{
    const int warmup = args->warmup_steps;
    double lr = args->lr / (warmup + 1);
    for (int taken = 1; taken < step; taken++)
        if (taken <= warmup)
            lr += args->lr / (warmup + 1);
        else if (args->lr_schedule == LR_STEP)
            lr *= (taken - warmup) % STEPS_PER_EPOCH == 0 ? 0.7 : 1;
        else if (args->lr_schedule == LR_COSINE) {
            const double part = acos(-1) / (args->epochs * STEPS_PER_EPOCH - warmup);
            lr *= (1 + cos(part * (taken - warmup))) / (1 + cos(part * (taken - warmup - 1)));
        }
    return lr;
}

/* Returns the factor of the gradients. */
static double reference_clip(const Args *args, size_t count, const float *grads)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)grads[i] * (double)grads[i];
    const double factor = args->clip_norm / (sqrt(sum) + 1e-6);
    return args->clip_norm > 0 && factor < 1 ? factor : 1;
}

static void assert_close(double actual, double expected)
{
    if (!(fabs(actual - expected) <= 1e-5 * fabs(expected) + 1e-7))
        fail_msg("%.9g instead of %.9g", actual, expected);
}

static void start(const Args *args, Device *device, Model *model, Optimizer *optim, Rng *rng)
{
    rng_seed(rng, 3);
    device_init(device, args, 0);
    model_init(model, args, 1, rng, device);
    optim_init(optim, args, model, STEPS_PER_EPOCH);
}

static void end(Device *device, Model *model, Optimizer *optim)
{
    optim_free(optim);
    model_free(model);
    device_free(device);
}

/* Checks an optimizer; the state's names in PyTorch's state_dict determine the number of arrays. */
static void check(Args args, const char *first_state, const char *second_state)
{
    args.dataset = args.model == MODEL_CNN ? DATASET_DIGITS : DATASET_RANDOM;
    args.dataset_size = 1;
    args.device = test_device_kind();
    Device device;
    Model model;
    Optimizer optim;
    Rng rng;
    start(&args, &device, &model, &optim, &rng);
    assert_int_equal(optim.kind, args.optimizer);
    assert_int_equal(optim.num_states, (first_state != NULL) + (second_state != NULL));
    if (first_state != NULL)
        assert_string_equal(optim.state_name[0], first_state);
    if (second_state != NULL)
        assert_string_equal(optim.state_name[1], second_state);

    Number *numbers = mem_calloc(model.numel, sizeof *numbers);
    const size_t bytes = model.numel * sizeof(float);
    float *params = copied_from(&device, model.params, bytes);
    float *grads = mem_calloc(model.numel, sizeof *grads);
    for (size_t i = 0; i < model.numel; i++)
        numbers[i].param = params[i];
    free(params);
    for (int step = 1; step <= STEPS; step++) {
        const double lr = reference_rate(&args, step);
        for (size_t i = 0; i < model.numel; i++)
            grads[i] = i == 7 ? 0 : rng_uniform_between(&rng, -1, 1) / (float)step;
        const double clip = reference_clip(&args, model.numel, grads);
        for (size_t i = 0; i < model.numel; i++)
            reference_step(&numbers[i], clip * grads[i], &args, lr, step);
        device_copy(&device, model.grads, grads, bytes, COPY_TO_DEVICE);
        optim_step(&optim);
        assert_int_equal(model.step, step);
        for (int j = -1; j < optim.num_states; j++) {
            float *ours = copied_from(&device, j < 0 ? model.params : optim.state[j], bytes);
            for (size_t i = 0; i < model.numel; i++)
                assert_close(ours[i], j < 0 ? numbers[i].param : numbers[i].state[j]);
            free(ours);
        }
    }
    free(grads);
    free(numbers);
    end(&device, &model, &optim);
}

static void test_sgd(void **state)
{
    (void)state;
    check((Args){ .optimizer = OPTIM_SGD, .lr = 0.1, .threads = 1 }, NULL, NULL);
    check((Args){ .optimizer = OPTIM_SGD, .lr = 0.1, .weight_decay = 0.03, .threads = 2 }, NULL,
          NULL);
    check((Args){ .optimizer = OPTIM_SGD, .lr = 0.1, .momentum = 0.9, .threads = 1 },
          "momentum_buffer", NULL);
    check((Args){ .optimizer = OPTIM_SGD,
                  .lr = 0.1,
                  .momentum = 0.5,
                  .weight_decay = 0.03,
                  .threads = 3 },
          "momentum_buffer", NULL);
}

static void test_adam(void **state)
{
    (void)state;
    check((Args){ .optimizer = OPTIM_ADAM, .lr = 1e-3, .threads = 1 }, "exp_avg", "exp_avg_sq");
    check((Args){ .optimizer = OPTIM_ADAM, .lr = 0.02, .weight_decay = 0.1, .threads = 2 },
          "exp_avg", "exp_avg_sq");
    // More elements than a GPU has threads.
    check((Args){ .model = MODEL_CNN, .optimizer = OPTIM_ADAM, .lr = 1e-3, .threads = 1 },
          "exp_avg", "exp_avg_sq");
}

static void test_adamw(void **state)
{
    (void)state;
    check((Args){ .optimizer = OPTIM_ADAMW, .lr = 1e-3, .threads = 1 }, "exp_avg", "exp_avg_sq");
    check((Args){ .optimizer = OPTIM_ADAMW, .lr = 0.02, .weight_decay = 0.1, .threads = 2 },
          "exp_avg", "exp_avg_sq");
}

static void test_adadelta(void **state)
{
    (void)state;
    check((Args){ .optimizer = OPTIM_ADADELTA, .lr = 1, .threads = 1 }, "square_avg", "acc_delta");
    check((Args){ .optimizer = OPTIM_ADADELTA, .lr = 0.5, .weight_decay = 0.1, .threads = 2 },
          "square_avg", "acc_delta");
}

/* Each optimizer in a recipe. The norm of the linear model's gradients is about 2.6 in the first
 * step, then a half of that, a third ..., so some steps are clipped and some are not. */
static void test_recipes(void **state)
{
    (void)state;
    const Args cosine = {
        .lr_schedule = LR_COSINE, .warmup_steps = 3, .epochs = STEPS, .threads = 2
    };
    Args args = cosine;
    args.optimizer = OPTIM_SGD;
    args.lr = 0.1;
    args.clip_norm = 1;
    check(args, NULL, NULL);
    args.momentum = 0.9;
    args.lr_schedule = LR_STEP;
    check(args, "momentum_buffer", NULL);
    args = cosine;
    args.optimizer = OPTIM_ADAMW;
    args.lr = 0.02;
    args.weight_decay = 0.1;
    check(args, "exp_avg", "exp_avg_sq");
    args.optimizer = OPTIM_ADAM;
    args.model = MODEL_CNN; // more elements than a GPU has threads
    args.lr = 1e-3;
    args.clip_norm = 100;
    check(args, "exp_avg", "exp_avg_sq");
    args = cosine;
    args.optimizer = OPTIM_ADADELTA;
    args.lr = 0.5;
    args.lr_schedule = LR_CONSTANT;
    args.clip_norm = 0.8;
    check(args, "square_avg", "acc_delta");
}

/* clip_grad_norm_ of a gradient that is not finite: the factor is 0 or NaN, so every step fails. */
static void test_clip_not_finite(void **state)
{
    (void)state;
    const float bad[] = { INFINITY, NAN };
    for (int i = 0; i < 2; i++) {
        Args args = { .model = MODEL_LINEAR,
                      .dataset = DATASET_RANDOM,
                      .dataset_size = 1,
                      .optimizer = OPTIM_SGD,
                      .lr = 0.1,
                      .clip_norm = 1,
                      .threads = 1 };
        args.device = test_device_kind();
        Device device;
        Model model;
        Optimizer optim;
        Rng rng;
        start(&args, &device, &model, &optim, &rng);
        device_copy(&device, model.grads + 7, &bad[i], sizeof bad[i], COPY_TO_DEVICE);
        optim_step(&optim);
        assert_int_equal(model_divergence(&model).weights, 1);
        end(&device, &model, &optim);
    }
}

/* A step records the first weight and the first loss that are not finite. */
static void test_divergence(void **state)
{
    (void)state;
    const OptimKind kinds[] = { OPTIM_SGD, OPTIM_ADAM, OPTIM_ADADELTA };
    for (int i = 0; i < 3; i++) {
        Args args;
        args_defaults(&args, "linear");
        args.optimizer = kinds[i];
        args.device = test_device_kind();
        Device device;
        Model model;
        Optimizer optim;
        Rng rng;
        start(&args, &device, &model, &optim, &rng);
        const float bad[] = { 1, INFINITY, NAN, 1 };
        for (int step = 1; step <= 4; step++) {
            if (step == 2)
                device_copy(&device, model.stats, &bad[1], sizeof bad[1], COPY_TO_DEVICE);
            device_copy(&device, model.grads + 7, step == 3 ? &bad[2] : &bad[0], sizeof bad[0],
                        COPY_TO_DEVICE);
            optim_step(&optim);
            const Divergence divergence = model_divergence(&model);
            assert_int_equal(divergence.loss, step < 2 ? 0 : 2);
            assert_int_equal(divergence.weights, step < 3 ? 0 : 3);
        }
        end(&device, &model, &optim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sgd),        cmocka_unit_test(test_adam),
        cmocka_unit_test(test_adamw),      cmocka_unit_test(test_adadelta),
        cmocka_unit_test(test_recipes),    cmocka_unit_test(test_clip_not_finite),
        cmocka_unit_test(test_divergence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
