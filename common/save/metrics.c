/*
 * Reports each step: to programs as a line of JSON, to people as a progress bar.
 *
 * Every rank writes a file of its own, so no rank waits for another. Asking for the loss makes the
 * host wait for the device, so it is done only where there is a file, or a bar to be drawn.
 */
#include "common/save/metrics.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/progress.h"
#include "common/io/explain.h"
#include "common/io/profile.h"
#include "common/io/trace.h"

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

/* Without a process group there is only rank 0. */
static void start_timeline(Metrics *metrics)
{
    const Args *args = metrics->args;
    if (args->trace == NULL && args->profile == NULL)
        return;
    if (args->trace != NULL)
        metrics->trace = timeline_file(args->trace, "--trace", metrics->rank);
    if (args->profile != NULL)
        metrics->profile = timeline_file(args->profile, "--profile", metrics->rank);
    timeline_start(&metrics->timeline, process_group_default());
}

static void stop_timeline(Metrics *metrics)
{
    const Args *args = metrics->args;
    if (args->trace == NULL && args->profile == NULL)
        return;
    timeline_stop(&metrics->timeline);
    if (args->trace != NULL)
        trace_write(metrics->trace, args->trace, &metrics->timeline, metrics->rank);
    if (args->profile != NULL)
        profile_write(metrics->profile, args->profile, &metrics->timeline, metrics->rank);
    timeline_free(&metrics->timeline);
}

void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch)
{
    *metrics = (Metrics){ .args = args,
                          .rank = rank,
                          .steps_per_epoch = steps_per_epoch,
                          .first_step = model->step,
                          .step = model->step,
                          .begin = seconds_now() };
    start_timeline(metrics);
    explain_start(model, rank);
    if (args->metrics_dir == NULL)
        return;

    folder_check(args->metrics_dir, "--metrics-dir");
    folder_create(args->metrics_dir, "--metrics-dir");
    char name[32];
    snprintf(name, sizeof name, "rank%d.jsonl", rank);
    step_file_open(&metrics->steps, args->metrics_dir, name, model->step);
    curves_init(&metrics->curves, args, model, rank);
    if (rank > 0)
        return;
    step_file_open(&metrics->tests, args->metrics_dir, "test.jsonl", model->step);
    write_run(args);
}

/* "epoch 3, loss 0.1234, 8123 samples/s, 0:12 left": of this rank's batch, all ranks, the run. */
static void draw_bar(Metrics *metrics, const Model *model, int epoch, size_t done)
{
    const Args *args = metrics->args;
    const ProcessGroup *pg = process_group_default();
    const double per_step =
        (seconds_now() - metrics->begin) / (double)(model->step - metrics->first_step);
    const int world_size = pg != NULL ? pg->world_size : 1;
    const double samples = (double)args_batch_size(args, world_size) * world_size / per_step;
    double steps_left = (double)(metrics->steps_per_epoch - done) +
                        (double)(args->epochs - epoch - 1) * (double)metrics->steps_per_epoch;
    steps_left = fmin(steps_left, (double)(args->max_steps - model->step));
    const int left = (int)fmin(fmax(steps_left, 0) * per_step, 1e8);

    char text[128];
    snprintf(text, sizeof text, "epoch %d, loss %.4f, %.0f samples/s, %d:%02d left", epoch,
             (double)model_loss(model), samples, left / 60, left % 60);
    progress_update(text, done, metrics->steps_per_epoch);
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
        curves_step(&metrics->curves, model);
    }
    if (metrics->rank > 0 || metrics->steps_per_epoch == 0)
        return;
    const size_t done = (model->step - 1) % metrics->steps_per_epoch + 1;
    if (progress_due(done, metrics->steps_per_epoch))
        draw_bar(metrics, model, epoch, done);
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
    curves_test(&metrics->curves, metrics->step, loss, accuracy);
}

void metrics_free(Metrics *metrics)
{
    progress_finish();
    stop_timeline(metrics);
    if (metrics->args->metrics_dir != NULL)
        curves_free(&metrics->curves);
    step_file_close(&metrics->steps);
    step_file_close(&metrics->tests);
}
