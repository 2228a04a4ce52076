/* What is shown and recorded during a run: a progress bar, curves, the timeline, the narration. */
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/save/metrics.h"
#include "extras/watch/curves.h"
#include "extras/watch/explain.h"
#include "extras/watch/journal.h"
#include "extras/watch/nvtx.h"
#include "extras/watch/peers.h"
#include "extras/watch/progress.h"
#include "extras/watch/recording.h"
#include "extras/watch/watch_device.h"

static struct {
    const Args *args;
    int rank;
    Curves curves; // used with --metrics-dir
    size_t steps_per_epoch;
    uint64_t first_step; // steps done before this process started
    double begin;
    double accuracy; // of the last test; negative if there was none
    char saved[PATH_MAX]; // where the last state has been written to
} run;

/* Describes the run for tools that read the folder later. */
static void write_run(const Args *args)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/run.json", args->metrics_dir);
    unlink(path); // a link's target must not be overwritten; O_EXCL, since another may be made now
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    char model[ARGS_VALUE_BYTES], dataset[ARGS_VALUE_BYTES];
    char seed[24]; // text, because many JSON readers are exact only up to 2^53
    snprintf(seed, sizeof seed, "%" PRIu64, args->seed);
    json_t *described = json_pack(
        "{ss ss si si ss so*}", "model", args_value(args, args_option("model"), model), "dataset",
        args_value(args, args_option("dataset"), dataset), "dataset_size", args->dataset_size,
        "num_samples", args->num_samples, "seed", seed, "settings", comfort_options(args));
    CHECK(fd >= 0 && described != NULL && json_dumpfd(described, fd, JSON_COMPACT) == 0,
          "cannot write %s: name another folder with --metrics-dir", path);
    close(fd);
    json_decref(described);
}

/* Cuts files of ranks that only an earlier, larger group had: their lines after this step belong to
 * no step of this run. Not without a group: other processes may be writing to them. */
static void cut_other_ranks(const Args *args, uint64_t step)
{
    char path[PATH_MAX];
    for (int rank = peers.world_size; peers.world_size > 1; rank++) {
        const int folder = snprintf(path, sizeof path, "%s/", args->metrics_dir);
        snprintf(path + folder, sizeof path - (size_t)folder, "rank%d.jsonl", rank);
        if (access(path, F_OK) != 0)
            return;
        fclose(step_file_open(args->metrics_dir, path + folder, step));
    }
}

void watch_init(const Args *args, const Model *model, int rank, size_t steps_per_epoch)
{
    run.args = args;
    run.rank = rank;
    run.steps_per_epoch = steps_per_epoch;
    run.first_step = model->step;
    run.begin = seconds_now();
    run.accuracy = -1;
    if (args->metrics_dir != NULL && rank == 0) {
        write_run(args);
        cut_other_ranks(args, model->step);
    }
    const MemoryLocation *place = &model->device->place;
    const bool on_gpu_with_tool = place->on_gpu && nvtx_listens();
    if (recording_enabled(args) || explain_enabled(rank) || on_gpu_with_tool ||
        (args->metrics_dir != NULL && rank == 0) || journal_enabled())
        watch_device(model);
    journal_model(model, rank);
    recording_start(args, rank, place->stream);
    explain_start(model, rank);
    if (args->metrics_dir != NULL)
        curves_init(&run.curves, args, model, rank, steps_per_epoch);
}

/* Draws "epoch 3, loss 0.1234, 8123 samples/s, 0:12 left": this batch, all ranks, the run. */
static void draw_bar(const Model *model, int epoch, size_t done)
{
    const Args *args = run.args;
    const double per_step = (seconds_now() - run.begin) / (double)(model->step - run.first_step);
    const double samples =
        (double)args_batch_size(args, peers.world_size) * peers.world_size / per_step;
    double steps_left = (double)(run.steps_per_epoch - done) +
                        (double)(args->epochs - epoch - 1) * (double)run.steps_per_epoch;
    steps_left = fmin(steps_left, (double)(args->max_steps - model->step));
    const int left = (int)fmin(fmax(steps_left, 0) * per_step, 1e8);

    char text[128];
    snprintf(text, sizeof text, "epoch %d, loss %.4f, %.0f samples/s, %d:%02d left", epoch,
             (double)model_loss(model), samples, left / 60, left % 60);
    progress_update(text, done, run.steps_per_epoch);
}

void watch_step(const Model *model, int epoch)
{
    journal_step(model, epoch);
    if (run.args->metrics_dir != NULL)
        curves_step(&run.curves, model);
    if (run.rank > 0 || run.steps_per_epoch == 0)
        return;
    const size_t done = (model->step - 1) % run.steps_per_epoch + 1;
    if (progress_due(done, run.steps_per_epoch)) // the loss is read only to be drawn
        draw_bar(model, epoch, done);
}

void watch_test(uint64_t step, double loss, double accuracy)
{
    journal_note("test step=%llu loss=%.9g accuracy=%.9g", (unsigned long long)step, loss,
                 accuracy);
    run.accuracy = isfinite(loss) ? accuracy : -1;
    if (run.args->metrics_dir != NULL && run.rank == 0)
        curves_test(&run.curves, step, loss, accuracy);
}

/* Called when the whole state has been copied, to be written to path. */
void watch_save(uint64_t step, const char *path)
{
    const char *name = strrchr(path, '/');
    journal_note("save step=%llu %s", (unsigned long long)step, name != NULL ? name + 1 : path);
    snprintf(run.saved, sizeof run.saved, "%s", path);
}

/* Prints on a terminal, if the run came to its end: "done in 8 s, accuracy 97.50%; ...". */
static void say_done(void)
{
    char dataset[ARGS_VALUE_BYTES];
    const char *name = strrchr(run.saved, '/'); // MODEL_DATASET is the last
    if (run.rank == 0 && run.accuracy >= 0 && name != NULL && progress_on_terminal() &&
        strstr(name, args_value(run.args, args_option("dataset"), dataset)) != NULL)
        log_info("done in %.1f s, accuracy %.2f%%; look at it: make && tools/evaluate %s",
                 seconds_now() - run.begin, 100 * run.accuracy, run.saved);
}

void watch_end(void)
{
    journal_note("end");
    progress_bar_finish();
    say_done();
    unwatch_device();
    recording_stop();
    if (run.args->metrics_dir != NULL)
        curves_free(&run.curves);
}
