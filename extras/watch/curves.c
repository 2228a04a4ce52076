/* A point costs a small all_reduce and a pass over the gradients, so not every step is one. */
#include "extras/watch/curves.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/comfort.h"
#include "common/base/memory.h"
#include "extras/watch/peers.h"

static void look_at_clock(Curves *curves, uint64_t step)
{
    curves->time = seconds_now();
    curves->step = step;
    for (int kind = 0; kind < NUM_SPAN_KINDS; kind++)
        curves->seconds[kind] = span_seconds[kind];
}

/* Writes the settings by which runs are compared, without the files and folders of each. */
static void write_settings(Curves *curves, const Args *args, uint64_t step)
{
    static const char *const own[] = { "metrics-dir", "checkpoint-dir", "trace", "profile" };
    json_t *settings = comfort_options(args);
    if (settings == NULL)
        return;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        json_object_del(settings, own[i]);
    json_object_set_new(settings, "world-size", json_sprintf("%d", peers.world_size));
    event_file_settings(&curves->events, step, settings);
    json_decref(settings);
}

/* Writes a table of the ranks and where they are; the last row counts those that do not fit. */
static void write_places(Curves *curves, uint64_t step, const char *places)
{
    char text[EVENT_FILE_MAX_TEXT] = "| rank | where it is |\n| --- | --- |\n";
    size_t length = strlen(text);
    int rank = 0;
    for (; rank < peers.world_size && length + 2 * PLACE_BYTES < sizeof text; rank++)
        length += (size_t)snprintf(text + length, PLACE_BYTES + 32, "| %d | %s |\n", rank,
                                   places + (size_t)rank * PLACE_BYTES);
    if (rank < peers.world_size)
        snprintf(text + length, PLACE_BYTES, "| ... | %d more |\n", peers.world_size - rank);
    event_file_text(&curves->events, "topology", step, text);
}

void curves_init(Curves *curves, const Args *args, const Model *model, int rank,
                 size_t steps_per_epoch)
{
    *curves = (Curves){ .rank = rank,
                        .interval = args->log_interval,
                        .lr = args->lr,
                        .schedule = lr_schedule(args, steps_per_epoch),
                        .batch_size = args_batch_size(args, peers.world_size) };
    if (rank == 0) {
        event_file_open(&curves->events, args->metrics_dir, model->step + 1);
        write_settings(curves, args, model->step + 1);
        curves->grads = mem_calloc(model->numel, sizeof *curves->grads);
        look_at_clock(curves, model->step);
    }
    char *places = peers.places != NULL ? peers.places() : NULL;
    if (rank == 0 && places != NULL)
        write_places(curves, model->step + 1, places);
    free(places);
}

/* Computes the norm of the averaged gradients, which is the same on all ranks. */
static double gradient_norm(Curves *curves, const Model *model)
{
    device_copy(model->device, curves->grads, model->grads, model->numel * sizeof(float),
                COPY_TO_HOST);
    double sum = 0;
    for (size_t i = 0; i < model->numel; i++)
        sum += (double)curves->grads[i] * (double)curves->grads[i];
    return sqrt(sum);
}

static void draw_speed(Curves *curves, uint64_t step)
{
    static const char *const tags[NUM_SPAN_KINDS] = { "time/data",      "time/forward",
                                                      "time/backward",  "time/wait",
                                                      "time/optimizer", NULL };
    const double evaluation = span_seconds[SPAN_EVALUATION] - curves->seconds[SPAN_EVALUATION];
    const double seconds = seconds_now() - curves->time - evaluation;
    const double samples = (double)(step - curves->step) * curves->batch_size * peers.world_size;
    if (seconds <= 0)
        return;
    event_file_scalar(&curves->events, "speed/samples_per_second", step, samples / seconds);
    for (int kind = 0; kind < SPAN_EVALUATION; kind++)
        event_file_scalar(&curves->events, tags[kind], step,
                          100 * (span_seconds[kind] - curves->seconds[kind]) / seconds);
}

void curves_step(Curves *curves, const Model *model)
{
    const uint64_t step = model->step;
    if (step % (uint64_t)curves->interval != 0 && step != 1)
        return;
    double loss = (double)model_loss(model);
    if (peers.world_size > 1)
        peers.sum(&loss, 1);
    if (curves->rank > 0)
        return;
    event_file_scalar(&curves->events, "train/loss", step, loss / peers.world_size);
    event_file_scalar(&curves->events, "train/gradient_norm", step, gradient_norm(curves, model));
    event_file_scalar(&curves->events, "train/lr", step,
                      curves->lr * lr_factor(&curves->schedule, step));
    draw_speed(curves, step);
    event_file_flush(&curves->events);
    look_at_clock(curves, step);
}

void curves_test(Curves *curves, uint64_t step, double loss, double accuracy)
{
    event_file_scalar(&curves->events, "test/loss", step, loss);
    event_file_scalar(&curves->events, "test/accuracy", step, accuracy);
    event_file_flush(&curves->events);
}

void curves_free(Curves *curves)
{
    if (curves->rank > 0)
        return;
    event_file_close(&curves->events);
    free(curves->grads);
}
