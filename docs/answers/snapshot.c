/*
 * The answer to lab-snapshot. 05_fault_tolerance/snapshots.c is the step's own: it writes
 * checkpoint files, in a thread, so that training does not wait for the disk.
 *
 * A file is a header, the parameters and the optimizer's states. It gets its name when all of it is
 * on the disk, and an older one is removed when that name is on the disk, too.
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

typedef struct {
    RunId run;
    uint64_t epoch, position, step; // position: rows of the epoch that are done, over all ranks
    uint64_t checksum; // of the header with 0 in this place, and of all that follows
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

static uint64_t checksum_of(Header header, const float *state)
{
    header.checksum = 0;
    const uLong crc = crc32_z(0, (const Bytef *)&header, sizeof header);
    const size_t numel = header.run.numel * (1 + header.run.num_states);
    return crc32_z(crc, (const Bytef *)state, numel * sizeof *state);
}

/* Copies the parameters and the optimizer's states, one after the other. Free the copy. */
static float *copy_of_state(const Optimizer *optim)
{
    const size_t numel = optim->model->numel;
    float *state = mem_alloc(numel * (size_t)(1 + optim->num_states), sizeof *state);
    memcpy(state, optim->model->params, numel * sizeof *state);
    for (int i = 0; i < optim->num_states; i++)
        memcpy(state + numel * (size_t)(1 + i), optim->state[i], numel * sizeof *state);
    return state;
}

/* Reads the file's header. Returns whether the file is a snapshot of this run. */
static bool read_header(const Snapshots *snapshots, int fd, Header *header)
{
    const RunId id = run_id(snapshots);
    return read(fd, header, sizeof *header) == sizeof *header &&
           memcmp(&header->run, &id, sizeof id) == 0;
}

static void remove_old(const Snapshots *snapshots, uint64_t step)
{
    char path[PATH_MAX];
    Header header;
    int kept = 1; // the one of this step
    while (newest_below(snapshots->args->checkpoint_dir, &step, path)) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const bool is_ours = fd >= 0 && read_header(snapshots, fd, &header);
        if (fd >= 0)
            close(fd);
        if (is_ours && kept++ >= snapshots->args->keep)
            unlink(path);
    }
}

/* Flushes the folder's names. */
static bool flush_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool save(Snapshots *snapshots)
{
    const char *folder = snapshots->args->checkpoint_dir;
    const Optimizer *optim = snapshots->checkpoint->optim;
    const Sampler *sampler = snapshots->checkpoint->sampler;
    Header header = { run_id(snapshots), (uint64_t)sampler->epoch,
                      sampler->position * (uint64_t)sampler->world_size, optim->model->step, 0 };
    float *state = copy_of_state(optim);
    header.checksum = checksum_of(header, state);
    const size_t bytes = header.run.numel * (1 + header.run.num_states) * sizeof *state;

    char path[PATH_MAX], aside[PATH_MAX];
    snprintf(path, sizeof path, "%s/snapshot_%llu", folder, (unsigned long long)header.step);
    CHECK(snprintf(aside, sizeof aside, "%s.tmp", path) < PATH_MAX, "%s: too long", path);
    const int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && write_all(fd, &header, sizeof header) && write_all(fd, state, bytes) &&
              fsync(fd) == 0;
    if (fd >= 0)
        ok = close(fd) == 0 && ok;
    ok = ok && rename(aside, path) == 0 && flush_folder(folder);
    free(state);
    if (ok)
        remove_old(snapshots, header.step);
    else
        unlink(aside);
    return ok;
}

/* Returns false, and changes nothing, if the file is damaged or another run's. */
static bool load(Snapshots *snapshots, const char *path)
{
    Optimizer *optim = snapshots->checkpoint->optim;
    Sampler *sampler = snapshots->checkpoint->sampler;
    float *state = copy_of_state(optim); // of the right size
    const size_t numel = optim->model->numel;
    const size_t bytes = numel * (size_t)(1 + optim->num_states) * sizeof *state;
    Header header;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool ok = fd >= 0 && read_header(snapshots, fd, &header) &&
                    read(fd, state, bytes) == (ssize_t)bytes &&
                    checksum_of(header, state) == header.checksum;
    if (fd >= 0)
        close(fd);
    if (ok) {
        memcpy(optim->model->params, state, numel * sizeof *state);
        for (int i = 0; i < optim->num_states; i++)
            memcpy(optim->state[i], state + numel * (size_t)(1 + i), numel * sizeof *state);
        optim->model->step = header.step;
        sampler->epoch = (int)header.epoch;
        sampler_seek(sampler, header.position);
    }
    free(state);
    return ok;
}

/* Given. */
void snapshots_init(Snapshots *snapshots, const Args *args, Checkpoint *checkpoint,
                    ProcessGroup *pg, FlightRecorder *recorder)
{
    (void)recorder;
    *snapshots = (Snapshots){ .args = args, .checkpoint = checkpoint, .pg = pg };
}

int snapshots_resume(Snapshots *snapshots)
{
    const Args *args = snapshots->args;
    ProcessGroup *pg = snapshots->pg;
    Optimizer *optim = snapshots->checkpoint->optim;
    Sampler *sampler = snapshots->checkpoint->sampler;
    char path[PATH_MAX];
    bool found = false;
    uint64_t step = UINT64_MAX;
    while (pg->rank == 0 && args->resume_auto && !found &&
           newest_below(args->checkpoint_dir, &step, path))
        found = load(snapshots, path);
    if (found)
        log_info("resumes from %s", path);
    else if (pg->rank == 0)
        checkpoint_load(snapshots->checkpoint); // --init-from, or a fresh start

    int64_t place[] = { (int64_t)optim->model->step, sampler->epoch,
                        (int64_t)sampler->position * sampler->world_size };
    broadcast(pg, place, 3, INT64, 0);
    broadcast(pg, optim->model->params, optim->model->numel, FLOAT32, 0);
    for (int i = 0; i < optim->num_states; i++)
        broadcast(pg, optim->state[i], optim->model->numel, FLOAT32, 0);
    optim->model->step = (uint64_t)place[0];
    sampler->epoch = (int)place[1];
    sampler_seek(sampler, (size_t)place[2]);
    return sampler->epoch;
}

/* Given, and collective. Returns whether the weights are finite, and so may be saved. */
bool snapshots_check_divergence(Snapshots *snapshots)
{
    const Divergence divergence = model_divergence(snapshots->checkpoint->optim->model);
    all_check_divergence(snapshots->pg, snapshots->args, divergence);
    return divergence.weights == 0;
}

void snapshots_step(Snapshots *snapshots)
{
    const uint64_t every = (uint64_t)snapshots->args->save_every_steps;
    const uint64_t step = snapshots->checkpoint->optim->model->step;
    if (every == 0 || step % every != 0)
        return;
    const bool is_finite = snapshots_check_divergence(snapshots);
    if (is_finite && snapshots->pg->rank == 0 && !save(snapshots))
        log_warning("no snapshot of step %llu: %s", (unsigned long long)step, strerror(errno));
}

void snapshots_stop(Snapshots *snapshots)
{
    const bool is_finite = snapshots_check_divergence(snapshots);
    if (is_finite && snapshots->pg->rank == 0)
        CHECK(save(snapshots), "no snapshot before the stop: %s", strerror(errno));
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
