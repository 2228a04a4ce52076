/*
 * Training must not wait for a disk, and the state must not change while it is written. So training
 * waits for a copy, which takes milliseconds, and a thread does the rest: checksum, write, fsync,
 * rename, and removal of the oldest. Each snapshot has its own thread, and only one
 * runs at a time: when it has ended, the copy may be overwritten.
 */
#include "05_fault_tolerance/snapshots.h"

#include <string.h>

#include "05_fault_tolerance/snapshot_folder.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/thread.h"

void snapshots_init(Snapshots *snapshots, const Args *args, Checkpoint *checkpoint,
                    ProcessGroup *pg)
{
    *snapshots = (Snapshots){ .args = args, .checkpoint = checkpoint, .pg = pg };
    if (pg->rank == 0)
        snapshot_folder_sweep(args->checkpoint_dir);
}

static void wait_for_writer(Snapshots *snapshots)
{
    if (snapshots->writing)
        pthread_join(snapshots->writer, NULL);
    snapshots->writing = false;
}

void snapshots_free(Snapshots *snapshots)
{
    wait_for_writer(snapshots);
}

/* Rank 0's count, on every rank; exact up to 2^53. */
static uint64_t from_rank_0(ProcessGroup *pg, uint64_t count)
{
    return (uint64_t)all_reduce_scalar(pg, pg->rank == 0 ? (double)count : 0, REDUCE_SUM);
}

int snapshots_resume(Snapshots *snapshots)
{
    const Args *args = snapshots->args;
    ProcessGroup *pg = snapshots->pg;
    Optimizer *optim = snapshots->checkpoint->optim;
    Model *model = optim->model;
    Sampler *sampler = snapshots->checkpoint->sampler;
    if (pg->rank == 0 && !(args->resume_auto && snapshot_folder_resume(snapshots->checkpoint)))
        checkpoint_load(snapshots->checkpoint);

    model->step = from_rank_0(pg, model->step);
    sampler->epoch = (int)from_rank_0(pg, (uint64_t)sampler->epoch);
    sampler_seek(sampler, from_rank_0(pg, sampler->position * (uint64_t)sampler->world_size));
    broadcast(pg, model->params, model->numel, FLOAT32, 0);
    for (int i = 0; i < optim->num_states; i++)
        broadcast(pg, optim->state[i], model->numel, FLOAT32, 0);
    LossScale *loss_scale = model->device->loss_scale;
    if (loss_scale != NULL)
        broadcast(pg, loss_scale, sizeof *loss_scale, UINT8, 0);
    return sampler->epoch;
}

/* The writer. A failure is a warning and costs only this snapshot: the previous one is still
 * there. */
static void *write_copy(void *argument)
{
    Snapshots *snapshots = argument;
    const bool is_snapshot = snapshots->copy.kind == CHECKPOINT_SNAPSHOT;
    const uint64_t step = snapshots->copy.step;
    char error[CHECKPOINT_ERROR_BYTES];
    if (!checkpoint_commit(&snapshots->copy, error, sizeof error))
        log_warning("%s: training goes on without it, make room", error);
    else if (is_snapshot)
        snapshot_folder_prune(snapshots->checkpoint, step, snapshots->args->keep);
    return NULL;
}

static void save(Snapshots *snapshots, CheckpointKind kind)
{
    wait_for_writer(snapshots);
    const char *folder = snapshots->args->checkpoint_dir;
    if (!folder_try(folder)) {
        log_warning("cannot create the folder %s: %s: training goes on without this checkpoint",
                    folder, strerror(errno));
        return;
    }
    checkpoint_copy(snapshots->checkpoint, kind, &snapshots->copy);
    const int error = thread_start(&snapshots->writer, write_copy, snapshots);
    CHECK(error == 0, "cannot start a thread that writes snapshots: %s", strerror(error));
    snapshots->writing = true;
}

static void check_finite(Snapshots *snapshots)
{
    const Divergence divergence = model_divergence(snapshots->checkpoint->optim->model);
    if (divergence.weights > 0)
        wait_for_writer(snapshots); // the last good snapshot
    all_check_divergence(snapshots->pg, snapshots->args, divergence);
}

void snapshots_step(Snapshots *snapshots)
{
    const uint64_t every = (uint64_t)snapshots->args->save_every_steps;
    const uint64_t step = snapshots->checkpoint->optim->model->step;
    if (every == 0 || step % every != 0)
        return;
    check_finite(snapshots);
    if (snapshots->pg->rank == 0)
        save(snapshots, CHECKPOINT_SNAPSHOT);
}

void snapshots_epoch(Snapshots *snapshots, int epoch)
{
    const int every = snapshots->args->save_every;
    if (snapshots->pg->rank == 0 && every > 0 && epoch % every == 0 &&
        checkpoint_next(snapshots->checkpoint).samples == 0) // --max-steps may end inside an epoch
        save(snapshots, CHECKPOINT_EPOCH);
}

void snapshots_stop(Snapshots *snapshots)
{
    check_finite(snapshots);
    if (snapshots->pg->rank != 0)
        return;
    wait_for_writer(snapshots);
    checkpoint_write(snapshots->checkpoint, CHECKPOINT_SNAPSHOT);
    log_info("stopped after step %llu: the same command resumes from there",
             (unsigned long long)snapshots->checkpoint->optim->model->step);
}
