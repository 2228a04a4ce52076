/*
 * Training must not wait for a disk, and the state must not change while it is written. So training
 * waits for a copy, which takes milliseconds, and a thread does the rest: checksum, write, fsync,
 * rename, and removal of the oldest. While a slow disk keeps it busy, only snapshots are skipped.
 */
#include "05_fault_tolerance/snapshots.h"

#include <stdlib.h>

#include "05_fault_tolerance/stop.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#define HASTY_SECONDS 0.4 // less than Open MPI 5 leaves from its first signal to SIGKILL

void snapshots_init(Snapshots *snapshots, const Args *args, Checkpoint *checkpoint,
                    ProcessGroup *pg, FlightRecorder *recorder)
{
    *snapshots = (Snapshots){ .args = args, .checkpoint = checkpoint, .pg = pg };
    if (pg->rank == 0)
        snapshot_writer_init(&snapshots->writer, checkpoint, pg, recorder);
}

void snapshots_free(Snapshots *snapshots)
{
    snapshot_writer_wait(&snapshots->writer);
}

/* Returns rank 0's count on every rank; exact up to 2^53. */
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
    snapshots->stepped = seconds_awake();
    return sampler->epoch;
}

bool snapshots_check_divergence(Snapshots *snapshots)
{
    const Divergence divergence = model_divergence(snapshots->checkpoint->optim->model);
    if (divergence.weights > 0)
        snapshot_writer_wait(&snapshots->writer); // the last good snapshot
    all_check_divergence(snapshots->pg, snapshots->args, divergence);
    return divergence.weights == 0;
}

/* Open MPI's mpirun may kill the ranks before they agree to stop, so after its first signal rank 0
 * saves the state, which is the same on all. Warns, once, if it would not wait for a step and its
 * snapshot; not below restart.sh, which turns SIGTERM into SIGUSR1. Training goes on. */
static void save_in_haste(Snapshots *snapshots, bool is_due)
{
    static bool is_said;
    SnapshotWriter *writer = &snapshots->writer;
    const double now = seconds_awake(), seconds = now - snapshots->stepped + writer->seconds;
    snapshots->stepped = now;
    if (seconds > HASTY_SECONDS && !is_said && getenv("TORCHELASTIC_RESTART_COUNT") == NULL) {
        log_warning("it may take %.1f s until a snapshot is on disk, but Open MPI's mpirun kills "
                    "the ranks 0.5 s after SIGTERM: to stop them, send it SIGUSR1",
                    seconds);
        is_said = true;
    }
    if (stop_is_near() && !is_due &&
        model_divergence(snapshots->checkpoint->optim->model).weights == 0 &&
        snapshot_writer_is_free(writer))
        snapshot_writer_start(writer, NULL);
}

void snapshots_step(Snapshots *snapshots)
{
    const uint64_t every = (uint64_t)snapshots->args->save_every_steps;
    const uint64_t step = snapshots->checkpoint->optim->model->step;
    const bool is_due = every > 0 && step % every == 0;
    if (stop_is_hasty() && snapshots->pg->rank == 0)
        save_in_haste(snapshots, is_due);
    if (!is_due)
        return;
    snapshots_check_divergence(snapshots);
    if (snapshots->pg->rank == 0 && snapshot_writer_is_free(&snapshots->writer))
        snapshot_writer_start(&snapshots->writer, NULL);
}

void snapshots_epoch(Snapshots *snapshots, int epoch)
{
    const int every = snapshots->args->save_every;
    char name[CHECKPOINT_NAME_BYTES];
    if (snapshots->pg->rank > 0 || every == 0 || epoch % every != 0 ||
        !checkpoint_epoch_name(snapshots->checkpoint, name)) // --max-steps may end inside an epoch
        return;
    snapshot_writer_wait(&snapshots->writer);
    snapshot_writer_start(&snapshots->writer, name);
}

void snapshots_stop(Snapshots *snapshots)
{
    const bool is_finite = snapshots_check_divergence(snapshots);
    if (snapshots->pg->rank != 0)
        return;
    snapshot_writer_save(&snapshots->writer, NULL);
    log_info("stopped after step %llu: the same command resumes from %s",
             (unsigned long long)snapshots->checkpoint->optim->model->step,
             is_finite ? "there" : "the last snapshot before the weights became nan");
}

void snapshots_final(Snapshots *snapshots)
{
    char name[CHECKPOINT_NAME_BYTES];
    if (snapshots->pg->rank == 0 && checkpoint_final_name(snapshots->checkpoint, name))
        snapshot_writer_save(&snapshots->writer, name);
}
