/* A line is a word, what it is about, and NAME=VALUE pairs. It is written as soon as the call is
 * made, so the last line of a rank that hangs shows where it hangs. */
#include "extras/watch/journal.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/folder.h"
#include "common/base/log.h"

static FILE *file; // NULL if no journal is kept
static pid_t owner; // the process that opened it: a child forked later opens its own
static const Model *written; // has the arrays that collectives are compared with; NULL if unknown

bool journal_enabled(void)
{
    const char *folder = getenv("DDP_JOURNAL");
    return folder != NULL && folder[0] != '\0';
}

/* Opens the file for appending: a rank that is restarted continues its file. */
void journal_open(int rank)
{
    if ((file != NULL && owner == getpid()) || !journal_enabled())
        return;
    const char *folder = getenv("DDP_JOURNAL");
    char path[PATH_MAX];
    folder_create(folder, "DDP_JOURNAL");
    CHECK(snprintf(path, sizeof path, "%s/rank%d.txt", folder, rank) < (int)sizeof path,
          "the path in DDP_JOURNAL is too long: %s", folder);
    file = fopen(path, "ae");
    CHECK(file != NULL, "cannot write %s: %s: name another folder in DDP_JOURNAL", path,
          strerror(errno));
    owner = getpid();
    setvbuf(file, NULL, _IOLBF, BUFSIZ); // a killed process leaves whole lines
    journal_note("open rank=%d pid=%d", rank, (int)owner);
}

bool journal_is_open(void)
{
    return file != NULL;
}

void journal_note(const char *format, ...)
{
    if (file == NULL)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    putc('\n', file);
}

/* ---- the model ---- */

const char *journal_data(const float *data, char text[40])
{
    const char *name = NULL;
    const float *array = NULL;
    text[0] = '\0';
    if (written != NULL && data >= written->params && data < written->params + written->numel)
        name = "params", array = written->params;
    if (written != NULL && data >= written->grads && data <= written->grads + written->numel)
        name = "grads", array = written->grads;
    if (name != NULL)
        snprintf(text, 40, " data=%s+%td", name, data - array);
    return text;
}

/* Writes "grads=NORM weights=NORM crc=SUM": two norms, which may be compared within rounding, and a
 * checksum, which differs as soon as a bit of a weight does. */
static const char *describe_state(const Model *model, char text[96])
{
    float *values = mem_alloc(model->numel, sizeof *values);
    double norm[2] = { 0, 0 };
    const float *const array[] = { model->grads, model->params };
    for (int i = 0; i < 2; i++) {
        device_copy(model->device, values, array[i], model->numel * sizeof *values, COPY_TO_HOST);
        for (size_t k = 0; k < model->numel; k++)
            norm[i] += (double)values[k] * (double)values[k];
    }
    snprintf(text, 96, "grads=%.9g weights=%.9g crc=%08lx", sqrt(norm[0]), sqrt(norm[1]),
             crc32_z(0, (const Bytef *)values, model->numel * sizeof *values));
    free(values);
    return text;
}

void journal_model(const Model *model, int rank)
{
    journal_open(rank);
    if (file == NULL)
        return;
    written = model;
    char state[96];
    journal_note("model rank=%d device=%s local_rank=%d parameters=%zu step=%" PRIu64 " %s", rank,
                 model->device->name, model->device->local_rank, model->numel, model->step,
                 describe_state(model, state));
}

void journal_batch(const Batch *batch, bool is_training)
{
    if (file == NULL)
        return;
    fprintf(file, "batch %zu %s of=%zu rows=", batch->number, is_training ? "train" : "evaluate",
            batch->dataset->size);
    for (int i = 0; i < batch->size; i++)
        fprintf(file, i > 0 ? ",%zu" : "%zu", batch->index[i]);
    putc('\n', file);
}

void journal_dropout(const char *layer, const DropoutKey *key)
{
    journal_note("dropout %s p=%g seed=%" PRIu64 " step=%" PRIu64 " first_row=%d row_stride=%d",
                 layer, (double)key->p, key->seed, key->step, key->first_row, key->row_stride);
}

void journal_step(const Model *model, int epoch)
{
    if (file == NULL)
        return;
    char state[96];
    journal_note("step %" PRIu64 " epoch=%d loss=%.9g %s", model->step, epoch,
                 (double)model_loss(model), describe_state(model, state));
}
