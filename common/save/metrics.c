/*
 * Every rank writes a file of its own, so no rank waits for another. Asking for the loss makes the
 * host wait for the device, so it is done only where there is a file. A resumed run appends to the
 * files of the previous one, from the step at which it resumes.
 */
#include "common/save/metrics.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/startup.h"

/* The step of a line; 0 if it is not a complete line of ours. */
static uint64_t line_step(const char *line, size_t length)
{
    if (length == 0 || line[length - 1] != '\n')
        return 0; // incomplete: its writer was killed
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_int_t step = json_integer_value(json_object_get(object, "step"));
    json_decref(object);
    return step > 0 ? (uint64_t)step : 0;
}

/* The offset of the first line about a step after last_step: from there on steps will be
 * repeated. */
static off_t end_of_steps(FILE *file, uint64_t last_step)
{
    off_t end = 0;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, file)) > 0) {
        const uint64_t step = line_step(line, (size_t)length);
        if (step == 0 || step > last_step)
            break;
        end += length;
    }
    free(line);
    return end;
}

FILE *step_file_open(const char *dir, const char *name, uint64_t last_step)
{
    char path[PATH_MAX];
    CHECK(snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path,
          "the path of --metrics-dir is too long: %s", dir);
    FILE *file = fopen(path, "a+e"); // reads from the start, writes at the end
    CHECK(file != NULL, "cannot write %s: %s: name another folder with --metrics-dir", path,
          strerror(errno));
    struct stat status; // reading a pipe or a device may block, or never end
    CHECK(fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode),
          "%s is no regular file: delete it, or name another folder with --metrics-dir", path);
    setvbuf(file, NULL, _IOLBF, BUFSIZ);
    const off_t end = end_of_steps(file, last_step);
    CHECK(fseeko(file, 0, SEEK_END) == 0 && ftruncate(fileno(file), end) == 0,
          "cannot shorten %s: %s", path, strerror(errno));
    return file;
}

/* Adds a line about a step. If the disk is full, warns and writes no more: training is worth more
 * than its metrics. */
__attribute__((format(printf, 3, 4))) static void write_line(FILE **file, uint64_t step,
                                                             const char *format, ...)
{
    if (*file == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    const int written = vfprintf(*file, format, arguments);
    va_end(arguments);
    if (written >= 0)
        return;
    log_warning("cannot write metrics from step %llu on: %s", (unsigned long long)step,
                strerror(errno));
    fclose(*file);
    *file = NULL;
}

enum { NUMBER_BYTES = 32 };

/* A number in JSON, which has no nan and no inf: those become "null". Nine digits tell any float
 * from its neighbours. Writes to text, returns it. */
static const char *number(double value, char text[NUMBER_BYTES])
{
    snprintf(text, NUMBER_BYTES, isfinite(value) ? "%.9g" : "null", value);
    return text;
}

static void close_file(FILE *file)
{
    if (file != NULL && fclose(file) != 0)
        log_warning("cannot write the last metrics: %s", strerror(errno));
}

/* What was run, for tools that read the folder later. */
static void write_run(const Args *args)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/run.json", args->metrics_dir);
    char seed[24]; // text: a number of JSON is exact up to 2^53, for many readers
    snprintf(seed, sizeof seed, "%" PRIu64, args->seed);
    json_t *run = json_pack("{ss ss si si ss so*}", "model", args->model, "dataset", args->dataset,
                            "dataset_size", args->dataset_size, "num_samples", args->num_samples,
                            "seed", seed, "settings", startup_options(args));
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
    metrics->steps = step_file_open(metrics->args->metrics_dir, name, model->step);
    if (metrics->rank == 0) {
        metrics->tests = step_file_open(metrics->args->metrics_dir, "test.jsonl", model->step);
        write_run(metrics->args);
    }
}

void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch)
{
    *metrics = (Metrics){ .args = args, .rank = rank, .step = model->step };
    if (args->metrics_dir != NULL)
        open_files(metrics, model);
    if (metrics_hooks.init != NULL)
        metrics_hooks.init(args, model, rank, steps_per_epoch);
}

void metrics_step(Metrics *metrics, const Model *model, int epoch)
{
    metrics->step = model->step;
    if (metrics->args->metrics_dir != NULL) {
        char loss[NUMBER_BYTES];
        write_line(&metrics->steps, model->step,
                   "{\"epoch\":%d,\"step\":%llu,\"rank\":%d,\"loss\":%s}\n", epoch,
                   (unsigned long long)model->step, metrics->rank,
                   number((double)model_loss(model), loss));
    }
    if (metrics_hooks.step != NULL)
        metrics_hooks.step(model, epoch);
}

void metrics_test(Metrics *metrics, int epoch, double loss, double correct, size_t size)
{
    const double accuracy = correct / (double)size;
    log_print("Test Epoch: %d Loss: %.4f Accuracy: %.2f%% (%.0f/%zu)", epoch, loss, 100 * accuracy,
              correct, size);
    if (metrics_hooks.test != NULL)
        metrics_hooks.test(metrics->step, loss, accuracy);
    char text[NUMBER_BYTES];
    write_line(&metrics->tests, metrics->step,
               "{\"epoch\":%d,\"step\":%llu,\"loss\":%s,\"accuracy\":%.9g}\n", epoch,
               (unsigned long long)metrics->step, number(loss, text), accuracy);
}

void metrics_free(Metrics *metrics)
{
    if (metrics_hooks.free != NULL)
        metrics_hooks.free();
    close_file(metrics->steps);
    close_file(metrics->tests);
}
