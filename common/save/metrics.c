/* Every rank writes a file of its own, so no rank waits for another. Asking for the loss makes the
 * host wait for the device, so it is done only where there is a file. A resumed run appends to the
 * files of the previous one, from the step at which it resumes. */
#include "common/save/metrics.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"

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

    // Cuts it from the first line on that is incomplete, since its writer was killed, or not of a
    // step up to last_step.
    off_t end = 0;
    char *line = NULL;
    size_t capacity = 0;
    uint64_t step;
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 0; end += length)
        if (sscanf(line, "{ \"epoch\" :%*d , \"step\" :%" SCNu64, &step) != 1 || step > last_step ||
            line[length - 1] != '\n')
            break;
    free(line);
    CHECK(ftruncate(fd, end) == 0 && fseeko(file, 0, SEEK_END) == 0, "cannot shorten %s: %s", path,
          strerror(errno));
    return file;
}

/* Adds a line about a step, which ends with `more`. JSON has no nan and no inf; nine digits
 * distinguish any float from its neighbours. If the disk is full, warns and writes no more, because
 * training is worth more than its metrics. */
static void write_line(FILE **file, int epoch, uint64_t step, const char *rank, double loss,
                       const char *more)
{
    char number[32];
    snprintf(number, sizeof number, isfinite(loss) ? "%.9g" : "null", loss);
    if (*file == NULL || fprintf(*file, "{\"epoch\":%d,\"step\":%" PRIu64 "%s,\"loss\":%s%s}\n",
                                 epoch, step, rank, number, more) >= 0)
        return;
    log_warning("cannot write metrics from step %" PRIu64 " on: %s", step, strerror(errno));
    fclose(*file);
    *file = NULL;
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
        metrics->tests = rank > 0 ? NULL : step_file_open(dir, "test.jsonl", model->step);
    }
    watch_init(args, model, rank, steps_per_epoch);
}

void metrics_step(Metrics *metrics, const Model *model, int epoch)
{
    char rank[32];
    metrics->step = model->step;
    snprintf(rank, sizeof rank, ",\"rank\":%d", metrics->rank);
    if (metrics->args->metrics_dir != NULL)
        write_line(&metrics->steps, epoch, model->step, rank, (double)model_loss(model), "");
    watch_step(model, epoch);
}

void metrics_test(Metrics *metrics, int epoch, double loss, double correct, size_t size)
{
    char text[48];
    const double accuracy = correct / (double)size;
    log_print("Test Epoch: %d Loss: %.4f Accuracy: %.2f%% (%.0f/%zu)", epoch, loss, 100 * accuracy,
              correct, size);
    watch_test(metrics->step, loss, accuracy);
    snprintf(text, sizeof text, ",\"accuracy\":%.9g", accuracy);
    write_line(&metrics->tests, epoch, metrics->step, "", loss, text);
}

void metrics_free(Metrics *metrics)
{
    watch_end();
    const bool is_cut = metrics->steps != NULL && fclose(metrics->steps) != 0;
    if ((metrics->tests != NULL && fclose(metrics->tests) != 0) || is_cut)
        log_warning("cannot write the last metrics: %s", strerror(errno));
}
