/*
 * cnn_step - the time of a whole training step of the CNN: gather, forward, loss, backward, SGD
 * with momentum, dropout on. Its median, since what else the machine does makes some steps longer.
 * Beside it: cnn_step.py, the same in PyTorch.
 *
 *     build/bench/cnn_step [batch size [threads [steps [off|bf16 [any|fixed]]]]]    --amp, --reduce-order
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/dataloader.h"
#include "common/nn/optim.h"

enum { WARM_UP = 5 };

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    Args args;
    args_defaults(&args, "cnn");
    args.batch_size = argc > 1 ? atoi(argv[1]) : 64;
    args.threads = argc > 2 ? atoi(argv[2]) : 1;
    const int steps = argc > 3 ? atoi(argv[3]) : 100;
    args.amp = argc > 4 ? argv[4] : "off";
    if (argc > 5)
        args.reduce_order = argv[5];

    Device device;
    device_init(&device, &args, 0);
    Rng rng;
    rng_seed(&rng, 0);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    Sampler sampler;
    distributed_sampler_init(&sampler, dataset.size, 0, 1, true, true, 0);
    DataLoader loader;
    dataloader_init(&loader, &dataset, &sampler, args.batch_size);
    Model model;
    model_init(&model, &args, args.batch_size, &rng, &device);
    Optimizer optim;
    optim_init(&optim, &args, &model);

    double *seconds = mem_calloc((size_t)steps, sizeof *seconds);
    for (int step = -WARM_UP; step < steps;) {
        const Batch *batch = dataloader_next(&loader);
        if (batch == NULL || batch->size < args.batch_size)
            continue; // full batches only
        const double begin = seconds_now();
        model_zero_grad(&model);
        model_forward(&model, batch);
        model_backward(&model);
        optim_step(&optim);
        device_synchronize(&device);
        if (step >= 0)
            seconds[step] = seconds_now() - begin;
        step++;
    }
    qsort(seconds, (size_t)steps, sizeof *seconds, compare);
    const double median = seconds[steps / 2];
    printf("%.0f samples/s, %.2f ms a step (batch %d, %d threads, amp %s, median of %d steps)\n",
           args.batch_size / median, 1e3 * median, args.batch_size, args.threads, args.amp, steps);
    return 0;
}
