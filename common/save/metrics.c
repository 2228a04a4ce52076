/*
 * Every rank writes a file of its own, so no rank waits for another. Asking for the loss makes the
 * host wait for the device, so it is done only where there is a file. A resumed run appends to the
 * files of the previous one, from the step at which it resumes.
 */
#include "common/save/metrics.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/folder.h"
#include "common/base/log.h"

/* Where the first line begins that is not whole or not of a step up to last_step: from there on
 * steps will be repeated. */
static off_t end_of_steps(FILE *file, uint64_t last_step)
{
    off_t end = 0;
    char *line = NULL;
    size_t capacity = 0;
    uint64_t step;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0; end += length)
        if (line[length - 1] != '\n' || // its writer was killed
            sscanf(line, "{ \"epoch\" :%*d , \"step\" :%" SCNu64, &step) != 1 || step > last_step)
            break;
    free(line);
    return end;
}

FILE *step_file_open(const char *dir, const char *name, uint64_t last_step)
{
    char path[PATH_MAX];
    CHECK(snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path,
          "the path of --metrics-dir is too long: %s", dir);
    const int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "a+"); // reads from the start, writes at the end
    CHECK(file != NULL, "cannot write %s: %s: name another folder with --metrics-dir", path,
          strerror(errno));
    struct stat status; // a pipe may block, a device never end; a link names another file
    CHECK(fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1,
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

/* What was run, for tools that read the folder later. */
static void write_run(const Args *args)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/run.json", args->metrics_dir);
    unlink(path); // perhaps a link, whose file would be lost
    char seed[24]; // text: a number of JSON is exact up to 2^53, for many readers
    snprintf(seed, sizeof seed, "%" PRIu64, args->seed);
    json_t *run =
        json_pack("{ss ss si si ss so*}", "model", args->model, "dataset", args->dataset,
                  "dataset_size", args->dataset_size, "num_samples", args->num_samples, "seed",
                  seed, "settings", comfort.options != NULL ? comfort.options() : NULL);
    CHECK(run != NULL && json_dump_file(run, path, JSON_COMPACT) == 0,
          "cannot write %s: name another folder with --metrics-dir", path);
    json_decref(run);
}

void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch)
{
    char name[32];
    const char *dir = args->metrics_dir;
    *metrics = (Metrics){ .args = args, .rank = rank, .step = model->step };
    if (dir != NULL) {
        folder_check(dir, "--metrics-dir");
        folder_create(dir, "--metrics-dir");
        snprintf(name, sizeof name, "rank%d.jsonl", rank);
        metrics->steps = step_file_open(dir, name, model->step);
    }
    if (dir != NULL && rank == 0) {
        metrics->tests = step_file_open(dir, "test.jsonl", model->step);
        write_run(args);
    }
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
    if ((metrics->steps != NULL && fclose(metrics->steps) != 0) |
        (metrics->tests != NULL && fclose(metrics->tests) != 0))
        log_warning("cannot write the last metrics: %s", strerror(errno));
}
