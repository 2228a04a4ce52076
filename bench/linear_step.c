/*
 * linear_step - steps of the linear model per second, as 01 takes them: epochs over the random set,
 * in another order each, batches of 32, squared error, plain SGD. The median of the epochs. Beside
 * it: linear_step.py, which takes the same steps on the same numbers in PyTorch; so the last loss
 * is the same.
 *
 *     build/bench/linear_step [epochs]
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/median.h"
#include "bench/training.h"
#include "common/base/memory.h"
#include "common/base/words.h"

int main(int argc, char **argv)
{
    words_check(argc, argv, 1,
                "Usage: build/bench/linear_step [epochs]\n\n"
                "Steps of the linear model per second.\n");
    const int epochs = argc > 1 ? atoi(argv[1]) : 300;
    CHECK(epochs > 0, "%s epochs: it is a number from 1 on", argv[1]);
    Args args;
    args_defaults(&args, "linear");
    args.device = DEVICE_CPU;
    args.threads = 1;
    Device device;
    device_init(&device, &args, 0);
    Training training;
    training_init(&training, &args, &device, 0, 1, false);
    Model *model = &training.model;

    double *seconds = mem_calloc((size_t)epochs, sizeof *seconds);
    for (int epoch = 0; epoch < epochs; epoch++) {
        const double begin = seconds_now();
        sampler_set_epoch(&training.sampler, epoch);
        for (const Batch *batch; (batch = dataloader_next(&training.loader)) != NULL;) {
            model_zero_grad(model);
            model_forward(model, batch);
            model_backward(model);
            optim_step(&training.optim);
        }
        seconds[epoch] = seconds_now() - begin;
    }
    fprintf(stderr, "loss %.9g\n", (double)model_loss(model));
    printf("{\"case\": \"linear model, batch %d\", \"value\": %.6g, \"unit\": \"steps/s\"}\n",
           args.batch_size,
           (double)dataloader_num_batches(&training.loader) / median(seconds, epochs));

    free(seconds);
    training_free(&training);
    device_free(&device);
    return 0;
}
