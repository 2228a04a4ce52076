/*
 * rows - how long a rank takes to be dealt its rows of an epoch, shuffled: 60,000 rows, rank 0 of
 * 4; and how many batches of 64 a second it gathers from 60,000 images in memory, in that order, on
 * one thread. Medians over epochs. See rows.py.
 */
#include <stdio.h>

#include "bench/median.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/words.h"
#include "common/nn/device.h"

enum { ROWS = 60000, FEATURES = 784, BATCH = 64, RANKS = 4, EPOCHS = 9 };

static void measure_sampler(Sampler *sampler)
{
    static size_t index[ROWS];
    double seconds[EPOCHS];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const double begin = seconds_now();
        sampler_set_epoch(sampler, epoch + 1);
        CHECK(sampler_next(sampler, index, ROWS) == ROWS / RANKS, "not a quarter of the rows");
        seconds[epoch] = seconds_now() - begin;
    }
    printf("{\"case\": \"sampler, an epoch\", \"value\": %.4g, \"unit\": \"ms\"}\n",
           1e3 * median(seconds, EPOCHS));
}

static void measure_loader(Sampler *sampler, const Dataset *dataset, Device *device)
{
    float *inputs = mem_calloc((size_t)BATCH * FEATURES, sizeof *inputs);
    int32_t labels[BATCH];
    DataLoader loader;
    dataloader_init(&loader, dataset, sampler, BATCH);
    double rates[EPOCHS];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const double begin = seconds_now();
        sampler_set_epoch(sampler, EPOCHS + epoch + 1);
        for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;)
            device->ops->gather(device, batch, inputs, labels, NULL);
        rates[epoch] = (double)dataloader_num_batches(&loader) / (seconds_now() - begin);
    }
    printf("{\"case\": \"loader, batches of 64\", \"value\": %.5g, \"unit\": \"batches/s\"}\n",
           median(rates, EPOCHS));
    dataloader_free(&loader);
    free(inputs);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 0,
                "Usage: build/bench/rows\n\n"
                "How long the sampler and the loader take for the rows of an epoch.\n");
    Args args;
    args_defaults(&args, "cnn");
    args.threads = 1;
    args.device = DEVICE_CPU;
    Device device;
    device_init(&device, &args, 0);
    Dataset dataset = { .name = "made up", .size = ROWS, .features = FEATURES, .num_classes = 10 };
    dataset.floats = mem_calloc((size_t)ROWS * FEATURES, sizeof(float));
    dataset.labels = mem_calloc(ROWS, sizeof *dataset.labels);
    Sampler sampler;
    distributed_sampler_init(&sampler, ROWS, 0, RANKS, true, false, 0);

    measure_sampler(&sampler);
    measure_loader(&sampler, &dataset, &device);

    sampler_free(&sampler);
    dataset_free(&dataset);
    device_free(&device);
    return 0;
}
