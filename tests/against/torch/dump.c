/*
 * Prints a training's inputs as raw floats on standard output, to be compared with PyTorch's.
 *
 *     dump rows DATASET SIZE SEED train|test    the inputs of each row, then its target or label
 *     dump rates SCHEDULE WARMUP EPOCHS STEPS   the factor of --lr at each step, in double
 *     dump log_probs FILE                       what a checkpoint makes of the digits' test images
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/save/checkpoint.h"

static void put(float value)
{
    CHECK(fwrite(&value, sizeof value, 1, stdout) == 1, "cannot write: %s", strerror(errno));
}

static void dump_rows(char **argv)
{
    Args args;
    args_defaults(&args, strcmp(argv[0], "random") == 0 ? "linear" : "cnn");
    option_set(args_option("dataset"), &args, argv[0], NULL);
    args.dataset_size = atoi(argv[1]);
    Rng rng;
    rng_seed(&rng, strtoull(argv[2], NULL, 10));
    Dataset dataset;
    dataset_init(&dataset, &args, strcmp(argv[3], "train") == 0 ? TRAIN : TEST, &rng);
    for (size_t row = 0; row < dataset.size; row++) {
        for (size_t i = 0; i < dataset.features; i++)
            put(dataset.floats[row * dataset.features + i]);
        put(dataset.labels != NULL ? (float)dataset.labels[row] : dataset.targets[row]);
    }
    dataset_free(&dataset);
}

static void dump_rates(char **argv)
{
    Args args = { .warmup_steps = atoi(argv[1]), .epochs = atoi(argv[2]) };
    option_set(args_option("lr-schedule"), &args, argv[0], NULL);
    const LrSchedule schedule = lr_schedule(&args, strtoull(argv[3], NULL, 10));
    for (uint64_t step = 1; step <= schedule.total_steps; step++) {
        const double factor = lr_factor(&schedule, step);
        CHECK(fwrite(&factor, sizeof factor, 1, stdout) == 1, "cannot write: %s", strerror(errno));
    }
}

/* The loss of a single row is minus the log probability of its label, so trying every label needs
 * no access to the model's internals. */
static void put_log_probs(Model *model, Dataset *dataset, int label)
{
    for (size_t row = 0; row < dataset->size; row++)
        dataset->labels[row] = label;
    Sampler sampler;
    sequential_sampler_init(&sampler, dataset->size, 0, 1);
    DataLoader loader;
    dataloader_init(&loader, dataset, &sampler, 1);
    for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
        model_forward(model, batch);
        put(-model_loss(model));
    }
    dataloader_free(&loader);
    sampler_free(&sampler);
}

static void dump_log_probs(const char *path)
{
    Args args;
    args_defaults(&args, "cnn");
    args.init_from = path;
    args.threads = 1;
    Device device;
    device_init(&device, &args, 0);
    Rng rng;
    rng_seed(&rng, args.seed);
    Dataset test_set;
    dataset_init(&test_set, &args, TEST, &rng);
    Model model;
    model_init(&model, &args, 1, &rng, &device);
    Optimizer optim;
    optim_init(&optim, &args, &model, 1);
    Sampler sampler;
    sequential_sampler_init(&sampler, test_set.size, 0, 1);
    Checkpoint checkpoint;
    checkpoint_init(&checkpoint, &args, &optim, &sampler, &test_set, 1);
    checkpoint_load(&checkpoint);
    model_eval(&model);

    for (int label = 0; label < test_set.num_classes; label++)
        put_log_probs(&model, &test_set, label);

    sampler_free(&sampler);
    optim_free(&optim);
    model_free(&model);
    dataset_free(&test_set);
    device_free(&device);
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "rows") == 0)
        dump_rows(argv + 2);
    else if (argc == 6 && strcmp(argv[1], "rates") == 0)
        dump_rates(argv + 2);
    else if (argc == 3 && strcmp(argv[1], "log_probs") == 0)
        dump_log_probs(argv[2]);
    else
        usage_error("usage: dump rows|rates|log_probs ...");
    CHECK(fflush(stdout) == 0, "cannot write: %s", strerror(errno));
    return 0;
}
