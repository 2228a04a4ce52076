/* metrics_run.h - shared by the tests of metrics: a folder, and runs of one row. */
#ifndef TESTS_COMMON_SAVE_METRICS_RUN_H
#define TESTS_COMMON_SAVE_METRICS_RUN_H

#include "common/save/metrics.h"
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

static char dir[80], path[112]; // --metrics-dir, and rank 2's file in it

static inline int make_metrics_folder(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(dir, sizeof dir, "%s/a/b", folder);
    snprintf(path, sizeof path, "%s/rank2.jsonl", dir);
    return 0;
}

/* A linear model without weights and one row whose target is 0: its loss is the bias squared. */
typedef struct {
    Args args;
    Device device;
    Model model;
    Dataset dataset;
    Metrics metrics;
    float row[20], target;
    size_t index;
} Run;

static inline void run_init(Run *run, int rank, uint64_t step)
{
    memset(run, 0, sizeof *run);
    run->args = (Args){ .dataset_size = 1,
                        .batch_size = 1,
                        .epochs = 2,
                        .max_steps = UINT64_MAX,
                        .log_interval = 1,
                        .threads = 1,
                        .device = DEVICE_CPU,
                        .metrics_dir = dir };
    run->dataset = (Dataset){ .name = "random",
                              .size = 1,
                              .features = 20,
                              .floats = run->row,
                              .targets = &run->target,
                              .std = 1 };
    Rng rng;
    rng_seed(&rng, 0);
    device_init(&run->device, &run->args, 0);
    model_init(&run->model, &run->args, 1, &rng, &run->device);
    run->model.step = step;
    metrics_init(&run->metrics, &run->args, &run->model, rank, 10);
}

static inline void run_free(Run *run)
{
    metrics_free(&run->metrics);
    model_free(&run->model);
    device_free(&run->device);
}

static inline void run_step(Run *run, int epoch, float bias)
{
    const Batch batch = {
        .dataset = &run->dataset, .index = &run->index, .size = 1, .row_stride = 1
    };
    model_import(&run->model, 1, &bias, run->model.params);
    model_forward(&run->model, &batch);
    run->model.step++;
    metrics_step(&run->metrics, &run->model, epoch);
}

#endif
