/*
 * lab-snapshot: the state of a run in a file, from which the next start goes on.
 *
 * The state is in snapshots->checkpoint:
 *
 *     optim->model->params             [numel] floats: optim->model->numel
 *     optim->state[i]                  [numel] floats each, for i < optim->num_states
 *     optim->model->step               the optimizer's steps
 *     sampler->epoch, sampler->position
 *                                      position: rows of the epoch that this rank has taken; all
 *                                      ranks together have taken sampler->world_size times as many
 *
 * The format of the file is yours. zlib's crc32_z makes a checksum, write_all (log.h) writes all.
 */
#include "05_fault_tolerance/snapshots.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/log.h"

/* Given: which run it is. Two are the same run if all bytes are equal. */
typedef struct {
    char model[32], dataset[32], optimizer[32];
    uint64_t rows, seed, global_batch, numel, num_states;
} RunId;

/* What a file begins with. Is something missing? */
typedef struct {
    RunId run;
    uint64_t epoch, position, step; // position: rows of the epoch that are done, over all ranks
} Header;

/* Given. */
static RunId run_id(const Snapshots *snapshots)
{
    const Checkpoint *checkpoint = snapshots->checkpoint;
    const Optimizer *optim = checkpoint->optim;
    const int batch = args_batch_size(snapshots->args, checkpoint->world_size);
    RunId id = { .rows = checkpoint->dataset->size,
                 .seed = snapshots->args->seed,
                 .global_batch = (uint64_t)batch * (uint64_t)checkpoint->world_size,
                 .numel = optim->model->numel,
                 .num_states = (uint64_t)optim->num_states };
    snprintf(id.model, sizeof id.model, "%s", optim->model->name);
    snprintf(id.dataset, sizeof id.dataset, "%s", checkpoint->dataset->name);
    snprintf(id.optimizer, sizeof id.optimizer, "%s", optim->name);
    return id;
}

/* Given: finds the snapshot with the largest step below *step, by the names DIR/snapshot_STEP;
 * false if there is none. Sets *step and path. */
static bool newest_below(const char *folder, uint64_t *step, char path[PATH_MAX])
{
    const uint64_t limit = *step;
    bool found = false;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return false;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char same[64];
        unsigned long long number;
        if (sscanf(entry->d_name, "snapshot_%19llu", &number) != 1 || number >= limit ||
            (found && number <= *step))
            continue;
        snprintf(same, sizeof same, "snapshot_%llu", number);
        if (strcmp(same, entry->d_name) != 0)
            continue; // snapshot_3.tmp
        found = true;
        *step = number;
        CHECK(snprintf(path, PATH_MAX, "%s/%s", folder, same) < PATH_MAX, "%s: too long", folder);
    }
    closedir(dir);
    return found;
}

/* Writes a snapshot of the state, on rank 0. Returns false if it cannot. */
static bool save(Snapshots *snapshots)
{
    (void)snapshots, (void)run_id;
    die("rung 1 is not written yet");
}

/* Restores the state from a file, on rank 0. Returns false, and changes nothing, if it cannot. */
static bool load(Snapshots *snapshots, const char *path)
{
    (void)snapshots, (void)path;
    die("rung 1 is not written yet");
}

/* Given. */
void snapshots_init(Snapshots *snapshots, const Args *args, Checkpoint *checkpoint,
                    ProcessGroup *pg, FlightRecorder *recorder)
{
    (void)recorder;
    *snapshots = (Snapshots){ .args = args, .checkpoint = checkpoint, .pg = pg };
}

/* Rung 1. Restores the newest snapshot on all ranks, and returns the epoch. If there is none, rank
 * 0 calls checkpoint_load: --init-from, or a fresh start. */
int snapshots_resume(Snapshots *snapshots)
{
    (void)snapshots, (void)newest_below, (void)load;
    die("rung 1 is not written yet");
}

/* Given, and collective. Returns whether the weights are finite, and so may be saved. */
bool snapshots_check_divergence(Snapshots *snapshots)
{
    const Divergence divergence = model_divergence(snapshots->checkpoint->optim->model);
    all_check_divergence(snapshots->pg, snapshots->args, divergence);
    return divergence.weights == 0;
}

/* Rung 1. Saves if it is time. */
void snapshots_step(Snapshots *snapshots)
{
    const uint64_t every = (uint64_t)snapshots->args->save_every_steps;
    const uint64_t step = snapshots->checkpoint->optim->model->step;
    if (every == 0 || step % every != 0)
        return;
    const bool is_finite = snapshots_check_divergence(snapshots);
    (void)is_finite, (void)save;
    die("rung 1 is not written yet");
}

/* Rung 4. The job is about to end: saves before it returns, or dies. */
void snapshots_stop(Snapshots *snapshots)
{
    (void)snapshots;
    die("rung 4 is not written yet");
}

/* Given. */
void snapshots_epoch(Snapshots *snapshots, int epoch)
{
    const int every = snapshots->args->save_every;
    if (snapshots->pg->rank == 0 && every > 0 && epoch % every == 0)
        checkpoint_save(snapshots->checkpoint);
}

/* Given. */
void snapshots_final(Snapshots *snapshots)
{
    if (snapshots->pg->rank == 0)
        checkpoint_save_final(snapshots->checkpoint);
}

/* Given. */
void snapshots_free(Snapshots *snapshots)
{
    (void)snapshots;
}
