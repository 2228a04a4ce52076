/*
 * Says what happens in each step: to programs by a line of JSON, to people by a bar.
 *
 * Every rank writes a file of its own, so no rank waits for another. The file is line buffered: a
 * reader that follows it sees whole lines. Asking for the loss makes the host wait for the device,
 * so it is done only where there is a file.
 */
#include "common/io/metrics.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/progress.h"

/* The step a line is about; 0 if it is no whole line of ours. */
static uint64_t line_step(const char *line, size_t length)
{
    if (length == 0 || line[length - 1] != '\n')
        return 0; // torn: its writer was killed
    json_t *object = json_loadb(line, length, 0, NULL);
    const json_int_t step = json_integer_value(json_object_get(object, "step"));
    json_decref(object);
    return step > 0 ? (uint64_t)step : 0;
}

/* Where the first line begins that says nothing about the steps up to last_step: those after are to
 * be taken again. */
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

/* What was run, for tools that read the folder later. */
static void write_run(const Args *args)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/run.json", args->metrics_dir);
    json_t *run = json_pack("{ss ss si si sI}", "model", args->model, "dataset", args->dataset,
                            "dataset_size", args->dataset_size, "num_samples", args->num_samples,
                            "seed", (json_int_t)args->seed);
    CHECK(run != NULL && json_dump_file(run, path, JSON_COMPACT) == 0,
          "cannot write %s: name another folder with --metrics-dir", path);
    json_decref(run);
}

void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch)
{
    *metrics = (Metrics){ .rank = rank, .steps_per_epoch = steps_per_epoch };
    if (args->metrics_dir == NULL)
        return;

    char path[PATH_MAX];
    folder_create(args->metrics_dir, "--metrics-dir");
    CHECK(snprintf(path, sizeof path, "%s/rank%d.jsonl", args->metrics_dir, rank) <
              (int)sizeof path,
          "the path of --metrics-dir is too long: %s", args->metrics_dir);
    metrics->file = fopen(path, "a+e"); // reads from the start, writes at the end
    CHECK(metrics->file != NULL, "cannot write %s: %s: name another folder with --metrics-dir",
          path, strerror(errno));
    struct stat status; // what is read from a pipe or a device may never come, or never end
    CHECK(fstat(fileno(metrics->file), &status) == 0 && S_ISREG(status.st_mode),
          "%s is no regular file: delete it, or name another folder with --metrics-dir", path);
    if (rank == 0)
        write_run(args);
    setvbuf(metrics->file, NULL, _IOLBF, BUFSIZ);
    const off_t end = end_of_steps(metrics->file, model->step);
    CHECK(fseeko(metrics->file, 0, SEEK_END) == 0 && ftruncate(fileno(metrics->file), end) == 0,
          "cannot shorten %s: %s", path, strerror(errno));
}

/* JSON has no nan and no inf. Nine digits tell any float from its neighbours. */
static void write_line(Metrics *metrics, uint64_t step, int epoch, float loss)
{
    char value[32] = "null";
    if (isfinite(loss))
        snprintf(value, sizeof value, "%.9g", (double)loss);
    if (fprintf(metrics->file, "{\"epoch\":%d,\"step\":%llu,\"rank\":%d,\"loss\":%s}\n", epoch,
                (unsigned long long)step, metrics->rank, value) < 0) {
        log_warning("cannot write metrics from step %llu on: %s", (unsigned long long)step,
                    strerror(errno));
        fclose(metrics->file);
        metrics->file = NULL; // training is worth more than its metrics
    }
}

void metrics_step(Metrics *metrics, const Model *model, int epoch)
{
    char text[64];
    snprintf(text, sizeof text, "epoch %d", epoch);
    if (metrics->file != NULL) {
        const float loss = model_loss(model);
        write_line(metrics, model->step, epoch, loss);
        snprintf(text, sizeof text, "epoch %d, loss %.4f", epoch, (double)loss);
    }
    if (metrics->rank == 0 && metrics->steps_per_epoch > 0)
        progress_update(text, (model->step - 1) % metrics->steps_per_epoch + 1,
                        metrics->steps_per_epoch);
}

void metrics_free(Metrics *metrics)
{
    progress_finish();
    if (metrics->file != NULL && fclose(metrics->file) != 0)
        log_warning("cannot write the last metrics: %s", strerror(errno));
}
