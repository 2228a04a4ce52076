/* checkpoint_run.h - shared by the tests of checkpoints: small runs, whose checkpoints go to the
 * test's folder, and files to change. */
#ifndef TESTS_COMMON_SAVE_CHECKPOINT_RUN_H
#define TESTS_COMMON_SAVE_CHECKPOINT_RUN_H

#include <fcntl.h>
#include <math.h>

#include "common/base/memory.h"
#include "common/save/checkpoint.h"
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

typedef struct {
    Args args;
    Device device;
    Model model;
    Optimizer optim;
    Dataset dataset; // has no rows, because only its description is used
    Sampler sampler; // rank 0's sampler
    Checkpoint checkpoint;
} Run;

static inline void run_init(Run *run, const char *model, const char *optimizer, double momentum,
                            uint64_t seed)
{
    const bool cnn = strcmp(model, "cnn") == 0;
    memset(run, 0, sizeof *run);
    run->args = (Args){ .dataset = cnn ? DATASET_DIGITS : DATASET_RANDOM,
                        .dataset_size = 2048,
                        .lr = 0.01,
                        .momentum = momentum,
                        .dropout = true,
                        .seed = seed,
                        .threads = 1,
                        .device = DEVICE_CPU,
                        .batch_size = 8,
                        .epochs = 10,
                        .max_steps = UINT64_MAX,
                        .checkpoint_dir = folder };
    option_set(args_option("model"), &run->args, model, NULL);
    option_set(args_option("optimizer"), &run->args, optimizer, NULL);
    run->dataset = (Dataset){ .name = cnn ? "digits" : "random",
                              .size = cnn ? 1437 : 2048,
                              .features = cnn ? 784 : 20,
                              .num_classes = cnn ? 10 : 0,
                              .mean = cnn ? 0.1307f : 0,
                              .std = cnn ? 0.3081f : 1 };
    Rng rng;
    rng_seed(&rng, seed);
    if (!cnn) // as the random data set does before the weights are drawn
        for (int i = 0; i < 2048 * 21; i++)
            rng_uniform(&rng);
    device_init(&run->device, &run->args, 0);
    model_init(&run->model, &run->args, 1, &rng, &run->device);
    optim_init(&run->optim, &run->args, &run->model, 1);
    distributed_sampler_init(&run->sampler, run->dataset.size, 0, 4, true, false, seed);
    checkpoint_init(&run->checkpoint, &run->args, &run->optim, &run->sampler, &run->dataset, 4);
}

static inline void run_free(Run *run)
{
    sampler_free(&run->sampler);
    optim_free(&run->optim);
    model_free(&run->model);
    device_free(&run->device);
}

/* Does an optimizer step with gradients computed from the step's number. */
static inline void run_step(Run *run)
{
    for (int i = 0; i < run->model.num_parameters; i++) {
        const size_t numel = run->model.parameter[i].numel;
        float *grads = mem_calloc(numel, sizeof *grads);
        for (size_t j = 0; j < numel; j++)
            grads[j] = sinf(0.37f * (float)j + (float)i + 2.1f * (float)run->model.step);
        model_import(&run->model, i, grads, run->model.grads);
        free(grads);
    }
    optim_step(&run->optim);
}

static inline void assert_same_array(const Run *a, const Run *b, const float *of_a,
                                     const float *of_b)
{
    for (int i = 0; i < a->model.num_parameters; i++) {
        const size_t numel = a->model.parameter[i].numel;
        float *one = mem_calloc(numel, sizeof *one), *other = mem_calloc(numel, sizeof *other);
        model_export(&a->model, i, of_a, one);
        model_export(&b->model, i, of_b, other);
        assert_memory_equal(one, other, numel * sizeof *one);
        free(one);
        free(other);
    }
}

static inline void assert_same(const Run *a, const Run *b)
{
    assert_int_equal(a->model.step, b->model.step);
    assert_same_array(a, b, a->model.params, b->model.params);
    for (int s = 0; s < a->optim.num_states; s++)
        assert_same_array(a, b, a->optim.state[s], b->optim.state[s]);
}

/* Redirects a descriptor to /dev/null; returns a copy to restore it. */
static inline int mute(int fd)
{
    const int saved = dup(fd), nowhere = open("/dev/null", O_WRONLY);
    assert_true(saved >= 0 && dup2(nowhere, fd) == fd);
    close(nowhere);
    return saved;
}

static inline void unmute(int fd, int saved)
{
    dup2(saved, fd);
    close(saved);
}

/* Saves the run after `epoch` epochs and `position` samples of the next one. */
static inline void save(Run *run, int epoch, size_t position)
{
    const int saved = mute(STDOUT_FILENO); // because the line it prints is not TAP
    run->sampler.epoch = epoch;
    sampler_seek(&run->sampler, position);
    (position == 0 ? checkpoint_save : checkpoint_save_final)(&run->checkpoint);
    unmute(STDOUT_FILENO, saved);
}

static inline char *get_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *content = malloc(*bytes);
    assert_int_equal(fread(content, 1, *bytes, file), *bytes);
    fclose(file);
    return content;
}

/* Calls checkpoint_load for a Run in a child process. */
static inline void load(const void *run)
{
    checkpoint_load(&((Run *)run)->checkpoint);
}

static inline void assert_refused(Run *run, const char *reason)
{
    assert_dies_saying(load, run, 2, reason);
}

#endif
