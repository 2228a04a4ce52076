/*
 * snapshot_parts.h - an answer to chapter 05: snapshots of which every rank writes a part.
 *
 * Rank r writes its share of one long array (parameters, then the optimizer's state). When all have
 * said that theirs is on disk, rank 0 writes `complete`, which names the step, the number of parts
 * and their checksums. A part that it does not name is no snapshot.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static void part_path(char *path, const Args *args, size_t step, int part)
{
    snprintf(path, PATH_MAX, "%s/s%zu_part%d.safetensors", args->checkpoint_dir, step, part);
}

/* The arrays of a run, by number; all have numel floats. */
static float *array_of(Optimizer *optim, int i)
{
    return i == 0 ? optim->model->params : optim->state[i - 1];
}

/* Writes [first, end) of each array. Returns the checksum, or -1: it is not on disk. */
static int64_t part_write(const char *path, Optimizer *optim, size_t first, size_t end)
{
    static const char *const names[] = { "params", "state0", "state1" };
    Safetensors file;
    safetensors_create(&file, path);
    for (int i = 0; i <= optim->num_states; i++)
        safetensors_add(&file, names[i], FLOAT32, 1, (size_t[]){ end - first },
                        array_of(optim, i) + first);
    const int64_t checksum = safetensors_checksum(&file, false);
    const bool written = safetensors_commit(&file);
    if (!written)
        log_warning("%s", file.error);
    safetensors_free(&file);
    return written ? checksum : -1;
}

/* Collective. All ranks must be after the same step, as they are after each optim_step. */
static void parts_save(const Checkpoint *checkpoint, ProcessGroup *pg)
{
    static size_t step_before; // the snapshot that this one replaces; 0: none
    Optimizer *optim = checkpoint->optim;
    const size_t step = optim->model->step, numel = optim->model->numel;
    const size_t first = numel * pg->rank / pg->world_size;
    const size_t end = numel * (pg->rank + 1) / pg->world_size;
    char path[PATH_MAX];
    part_path(path, checkpoint->args, step, pg->rank);
    const int64_t checksum = part_write(path, optim, first, end);

    int64_t checksums[pg->world_size]; // to have them all is to know that all parts are on disk
    all_gather(pg, &checksum, checksums, 1, INT64);
    bool complete = true;
    for (int i = 0; i < pg->world_size; i++)
        complete = complete && checksums[i] >= 0;
    if (complete && pg->rank == 0) {
        Safetensors file;
        snprintf(path, sizeof path, "%s/complete", checkpoint->args->checkpoint_dir);
        safetensors_create(&file, path);
        safetensors_add(&file, "checksums", INT64, 1, (size_t[]){ pg->world_size }, checksums);
        safetensors_add_metadata(&file, "step", "%zu", step);
        safetensors_add_metadata(&file, "epoch", "%d", checkpoint->sampler->epoch);
        safetensors_add_metadata(&file, "position", "%zu",
                                 checkpoint->sampler->position * pg->world_size);
        complete = safetensors_commit(&file);
        safetensors_free(&file);
    }
    // The old parts are the snapshot until the new `complete` is there, and rank 0 has to say so.
    complete = all_reduce_scalar(pg, complete, REDUCE_MIN) == 1;
    part_path(path, checkpoint->args, complete ? step_before : step, pg->rank);
    if (!complete || step_before > 0)
        unlink(path);
    step_before = complete ? step : step_before;
}

/* Every rank reads all parts, however many ranks wrote them. Returns the epoch. */
static int parts_load(const Checkpoint *checkpoint)
{
    Optimizer *optim = checkpoint->optim;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/complete", checkpoint->args->checkpoint_dir);
    if (access(path, F_OK) != 0)
        return 0;
    Safetensors complete, file;
    CHECK(safetensors_open(&complete, path, WITH_DATA), "%s", complete.error);
    const StoredTensor *parts = safetensors_find(&complete, "checksums");
    const int64_t *checksums = parts->data;
    const size_t num_parts = parts->shape[0], numel = optim->model->numel;
    optim->model->step = strtoull(safetensors_metadata(&complete, "step"), NULL, 10);
    checkpoint->sampler->epoch = atoi(safetensors_metadata(&complete, "epoch"));
    sampler_seek(checkpoint->sampler,
                 strtoull(safetensors_metadata(&complete, "position"), NULL, 10));

    for (size_t part = 0; part < num_parts; part++) {
        part_path(path, checkpoint->args, optim->model->step, (int)part);
        CHECK(safetensors_open(&file, path, WITH_DATA), "%s", file.error);
        CHECK(safetensors_checksum(&file, false) == checksums[part], "%s is of another snapshot",
              path);
        for (int i = 0; i <= optim->num_states; i++) {
            const StoredTensor *tensor = &file.tensor[i];
            memcpy(array_of(optim, i) + numel * part / num_parts, tensor->data, tensor->bytes);
        }
        safetensors_free(&file);
    }
    safetensors_free(&complete);
    log_info("resumes from %zu parts of step %zu", num_parts, (size_t)optim->model->step);
    return checkpoint->sampler->epoch;
}
