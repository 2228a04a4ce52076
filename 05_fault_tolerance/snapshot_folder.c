/*
 * Headers are trusted only for the order in which files are tried: the first that verifies is
 * taken. So a folder with many checkpoints costs no more reading than a folder with one, and no
 * state changes before a file is known to be valid.
 *
 * Only snapshots that this run could resume from are ever removed.
 */
#include "05_fault_tolerance/snapshot_folder.h"

#include <dirent.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/host.h"
#include "common/base/log.h"

#define ASIDE "aside"

typedef struct {
    char *path;
    uint64_t step;
    int epoch;
} Found;

typedef struct {
    Found *found; // the furthest first
    int count;
    bool has_others; // checkpoints of other runs
    bool has_other_batch; // some differ from this run only in the global batch
} Folder;

static bool is_snapshot(const char *name, uint64_t *step)
{
    char same[80];
    int epoch;
    unsigned long long number;
    if (sscanf(name, "snapshot_e%9d_s%19llu", &epoch, &number) != 2)
        return false;
    *step = number;
    snprintf(same, sizeof same, "snapshot_e%d_s%llu.safetensors", epoch, number);
    return strcmp(name, same) == 0;
}

void snapshot_copy(const Checkpoint *checkpoint, CheckpointCopy *copy)
{
    const Sampler *sampler = checkpoint->sampler;
    const Position here = { sampler->epoch, sampler->position * (size_t)sampler->world_size,
                            checkpoint->optim->model->step };
    char name[CHECKPOINT_NAME_BYTES];
    snprintf(name, sizeof name, "snapshot_e%d_s%llu", here.epoch, (unsigned long long)here.step);
    checkpoint_copy(checkpoint, name, here, copy);
    copy->kind = "snapshot";
    copy->epoch = here.epoch;
}

static bool is_checkpoint(const char *name, const Checkpoint *checkpoint)
{
    char same[128];
    int epoch = 0;
    sscanf(name, "epoch_%9d", &epoch);
    snprintf(same, sizeof same, "epoch_%d.safetensors", epoch);
    if (strcmp(name, same) == 0)
        return true;
    snprintf(same, sizeof same, "%s_%s.safetensors", checkpoint->optim->model->name,
             checkpoint->dataset->name);
    return strcmp(name, same) == 0;
}

/* Sorts the furthest first; of two after the same step, the one after the evaluation. */
static int compare(const void *one, const void *other)
{
    const Found *a = one, *b = other;
    if (a->step != b->step)
        return a->step > b->step ? -1 : 1;
    return a->epoch != b->epoch ? (a->epoch > b->epoch ? -1 : 1) : strcmp(a->path, b->path);
}

static void folder_free(Folder *folder)
{
    for (int i = 0; i < folder->count; i++)
        free(folder->found[i].path);
    free(folder->found);
}

/* Lists snapshots, with the steps in their names; without `only_snapshots`, all checkpoints of this
 * model and data set. */
static Folder folder_read(const Checkpoint *checkpoint, bool only_snapshots)
{
    const char *path = checkpoint->args->checkpoint_dir;
    Folder folder = { 0 };
    DIR *dir = opendir(path);
    if (dir == NULL) // does not exist yet
        return folder;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        Found found = { 0 };
        if (!is_snapshot(entry->d_name, &found.step) &&
            (only_snapshots || !is_checkpoint(entry->d_name, checkpoint)))
            continue;
        CHECK(asprintf(&found.path, "%s/%s", path, entry->d_name) >= 0, "out of memory");
        folder.found = realloc(folder.found, (size_t)(folder.count + 1) * sizeof found);
        CHECK(folder.found != NULL, "out of memory");
        folder.found[folder.count++] = found;
    }
    closedir(dir);
    return folder;
}

bool checkpoint_peek(const Checkpoint *checkpoint, const char *path, CheckpointClaim *claim)
{
    Safetensors file;
    const bool ok = safetensors_open(&file, path, HEADER_ONLY);
    const char *step = safetensors_metadata(&file, "step");
    const char *epoch = safetensors_metadata(&file, "epoch");
    *claim = (CheckpointClaim){ .step = step != NULL ? strtoull(step, NULL, 10) : 0,
                                .epoch = epoch != NULL ? atoi(epoch) : 0 };
    const int setting = ok ? checkpoint_difference(checkpoint, &file, 0) : -1;
    claim->is_this_run = setting >= NUM_IDENTITY_SETTINGS;
    claim->is_other_batch = setting == SETTING_GLOBAL_BATCH;
    strcpy(claim->error, file.error);
    safetensors_free(&file);
    return ok;
}

/* Keeps this run's files, with the step and epoch that their headers claim. */
static void folder_filter(Folder *folder, const Checkpoint *checkpoint)
{
    char first[sizeof((CheckpointClaim *)0)->error];
    int count = 0, others = 0;
    for (int i = 0; i < folder->count; i++) {
        Found *found = &folder->found[i];
        CheckpointClaim claim;
        const bool readable = checkpoint_peek(checkpoint, found->path, &claim);
        if (readable && claim.is_this_run) {
            folder->found[count++] = (Found){ found->path, claim.step, claim.epoch };
            continue;
        }
        if (!readable)
            log_warning("skipped: %s", claim.error);
        else if (others++ == 0)
            strcpy(first, claim.error);
        folder->has_other_batch |= readable && claim.is_other_batch;
        free(found->path);
    }
    folder->count = count;
    folder->has_others = others > 0;
    if (others > 0)
        log_info("skipped: %d checkpoints of other runs: %s", others, first);
}

bool snapshot_folder_resume(Checkpoint *checkpoint)
{
    Folder folder = folder_read(checkpoint, false);
    folder_filter(&folder, checkpoint);
    if (folder.count > 0)
        qsort(folder.found, (size_t)folder.count, sizeof *folder.found, compare);

    bool found = false;
    for (int i = 0; !found && i < folder.count; i++) {
        const char *path = folder.found[i].path;
        Safetensors file;
        found = checkpoint_resume(checkpoint, &file, path);
        safetensors_free(&file);
        if (!found)
            log_warning("skipped: %s", file.error);
        else if (!checkpoint->done)
            log_info("resumes from %s: epoch %d, step %llu", path, checkpoint->sampler->epoch,
                     (unsigned long long)checkpoint->optim->model->step);
    }
    // A group that has shrunk would start afresh and overwrite its checkpoints.
    if (!found && folder.has_other_batch && restart_count() > 0)
        usage_error("the number of ranks has changed, and with it the batch of all ranks together: "
                    "where that may happen, fix it by --global-batch-size");
    if (!found && folder.has_others)
        log_warning(
            "nothing of this run in %s: a fresh start; files of other runs whose names it needs go "
            "to the folder " ASIDE " there",
            checkpoint->args->checkpoint_dir);
    else if (!found)
        log_info("nothing in %s to resume from: a fresh start", checkpoint->args->checkpoint_dir);
    folder_free(&folder);
    return found;
}

/* Moves it to the folder ASIDE. Its number distinguishes it from others of its name. */
static bool move_aside(const char *dir, const Safetensors *old, Safetensors *file)
{
    const bool is_ours = safetensors_metadata(old, CHECKPOINT_VERSION_KEY) != NULL;
    uint32_t number = is_ours ? safetensors_metadata_checksum(old, "") : 0;
    const char *name = strrchr(old->path, '/') + 1;
    char *folder = NULL, *path = NULL;
    CHECK(asprintf(&folder, "%s/" ASIDE, dir) > 0, "out of memory");
    do {
        free(path);
        CHECK(asprintf(&path, "%s/%.*s.%08x.safetensors", folder, (int)strcspn(name, "."), name,
                       number++) > 0,
              "out of memory");
    } while (!is_ours && access(path, F_OK) == 0); // files of ours with one number are equal
    const bool ok = (folder_try(folder) && rename(old->path, path) == 0) ||
                    file_reject(file, "is of another run, and cannot be moved to %s: %s", folder,
                                strerror(errno));
    if (ok)
        log_info("%s is of another run: it is now %s", old->path, path);
    free(folder);
    free(path);
    return ok;
}

bool snapshot_folder_set_aside(const Checkpoint *checkpoint, CheckpointCopy *copy)
{
    Safetensors *file = &copy->file;
    if (!checkpoint->args->resume_auto) // --resume none: the user wants it so
        return true;
    Safetensors old;
    const bool is_other = safetensors_open(&old, file->path, HEADER_ONLY) &&
                          checkpoint_difference(checkpoint, &old, 0) < NUM_IDENTITY_SETTINGS;
    const bool ok = !is_other || move_aside(checkpoint->args->checkpoint_dir, &old, file);
    safetensors_free(&old);
    if (!ok) {
        safetensors_free(file);
        free(copy->state);
    }
    return ok;
}

void snapshot_folder_prune(const Checkpoint *checkpoint, uint64_t step, int keep)
{
    Folder folder = folder_read(checkpoint, true);
    if (folder.count > 0)
        qsort(folder.found, (size_t)folder.count, sizeof *folder.found, compare);
    for (int i = 0; i < folder.count; i++) {
        const Found *found = &folder.found[i];
        CheckpointClaim claim;
        if (found->step > step || !checkpoint_peek(checkpoint, found->path, &claim) ||
            !claim.is_this_run)
            continue; // neither removed nor counted
        if (keep-- > 0)
            continue;
        Safetensors file;
        Position position;
        if (checkpoint_verify(checkpoint, &file, found->path, &position))
            unlink(found->path); // if that fails, the next call tries again
        safetensors_free(&file);
    }
    folder_free(&folder);
}

int restart_count(void)
{
    return host_env_count("TORCHELASTIC_RESTART_COUNT") + host_env_count("SLURM_RESTART_COUNT");
}

/* Returns whether the mount point contains this path. */
static bool contains(const char *mount_point, const char *path)
{
    const size_t length = strlen(mount_point);
    const bool is_root = length == 1;
    return strncmp(mount_point, path, length) == 0 &&
           (is_root || path[length] == '/' || path[length] == '\0');
}

/* Finds the longest mount point that contains the folder; of equal ones the last, which hides the
 * others. */
char *snapshot_folder_disk(const char *dir, char text[DISK_BYTES])
{
    char path[PATH_MAX];
    snprintf(text, DISK_BYTES, "the disk of %s", dir);
    FILE *mounts = realpath(dir, path) != NULL ? setmntent("/proc/self/mounts", "re") : NULL;
    if (mounts == NULL)
        return text;
    size_t longest = 0;
    for (const struct mntent *mount; (mount = getmntent(mounts)) != NULL;)
        if (contains(mount->mnt_dir, path) && strlen(mount->mnt_dir) >= longest) {
            longest = strlen(mount->mnt_dir);
            snprintf(text, DISK_BYTES, "%s (%s, %s)", mount->mnt_dir, mount->mnt_fsname,
                     mount->mnt_type);
        }
    endmntent(mounts);
    return text;
}
