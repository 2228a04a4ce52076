/*
 * Every rank writes a file of its own, so no rank waits for another. Asking for the loss makes the
 * host wait for the device, so it is done only where there is a file.
 */
#include "common/save/metrics.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>

#include "common/base/folder.h"
#include "common/base/log.h"

/* What was run, for tools that read the folder later. */
static void write_run(const Args *args)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/run.json", args->metrics_dir);
    char seed[24]; // text: a number of JSON is exact up to 2^53, for many readers
    snprintf(seed, sizeof seed, "%" PRIu64, args->seed);
    json_t *run = json_pack("{ss ss si si ss}", "model", args->model, "dataset", args->dataset,
                            "dataset_size", args->dataset_size, "num_samples", args->num_samples,
                            "seed", seed);
    CHECK(run != NULL && json_dump_file(run, path, JSON_COMPACT) == 0,
          "cannot write %s: name another folder with --metrics-dir", path);
    json_decref(run);
}

static void open_files(Metrics *metrics, const Model *model)
{
    folder_check(metrics->args->metrics_dir, "--metrics-dir");
    folder_create(metrics->args->metrics_dir, "--metrics-dir");
    char name[32];
    snprintf(name, sizeof name, "rank%d.jsonl", metrics->rank);
    step_file_open(&metrics->steps, metrics->args->metrics_dir, name, model->step);
    if (metrics->rank == 0) {
        step_file_open(&metrics->tests, metrics->args->metrics_dir, "test.jsonl", model->step);
        write_run(metrics->args);
    }
}

void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch)
{
    *metrics = (Metrics){ .args = args, .rank = rank, .step = model->step };
    if (args->metrics_dir != NULL)
        open_files(metrics, model);
    metrics_hooks.init(args, model, rank, steps_per_epoch);
}

void metrics_step(Metrics *metrics, const Model *model, int epoch)
{
    metrics->step = model->step;
    if (metrics->args->metrics_dir != NULL) {
        char loss[JSON_NUMBER_BYTES];
        step_file_write(&metrics->steps, model->step,
                        "{\"epoch\":%d,\"step\":%llu,\"rank\":%d,\"loss\":%s}\n", epoch,
                        (unsigned long long)model->step, metrics->rank,
                        json_number((double)model_loss(model), loss));
    }
    metrics_hooks.step(model, epoch);
}

void metrics_test(Metrics *metrics, int epoch, double loss, double correct, size_t size)
{
    const double accuracy = correct / (double)size;
    log_print("Test Epoch: %d Loss: %.4f Accuracy: %.2f%% (%.0f/%zu)", epoch, loss, 100 * accuracy,
              correct, size);
    if (metrics->args->metrics_dir == NULL || metrics->rank > 0)
        return;
    char text[JSON_NUMBER_BYTES];
    step_file_write(&metrics->tests, metrics->step,
                    "{\"epoch\":%d,\"step\":%llu,\"loss\":%s,\"accuracy\":%.9g}\n", epoch,
                    (unsigned long long)metrics->step, json_number(loss, text), accuracy);
    metrics_hooks.test(metrics->step, loss, accuracy);
}

void metrics_free(Metrics *metrics)
{
    metrics_hooks.free();
    step_file_close(&metrics->steps);
    step_file_close(&metrics->tests);
}
