/*
 * snapshots.h - saves the whole state of a run while it continues; the next start resumes from it.
 *
 * torch.distributed.checkpoint.async_save does the first half. Rank 0 copies its state, which is
 * the same on every rank, and a thread writes the copy.
 */
#ifndef FAULT_TOLERANCE_SNAPSHOTS_H
#define FAULT_TOLERANCE_SNAPSHOTS_H

#include "05_fault_tolerance/snapshot_writer.h"

typedef struct {
    const Args *args;
    Checkpoint *checkpoint; // what is saved
    ProcessGroup *pg;
    SnapshotWriter writer; // on rank 0
    double stepped; // end of the latest step, on the clock of seconds_awake()
} Snapshots;

/* Pointers are borrowed. args: checkpoint_dir, resume, init_from, save_every_steps, keep. The
 * folder must be this run's: diagnostics_init locks it. `recorder` notes for which disk rank 0
 * waits. */
void snapshots_init(Snapshots *snapshots, const Args *args, Checkpoint *checkpoint,
                    ProcessGroup *pg, FlightRecorder *recorder);

/* Restores the run on all ranks and returns the epoch: with --resume auto from this run's furthest
 * valid checkpoint in --checkpoint-dir, else as checkpoint_load does. Only rank 0 reads, so other
 * nodes need no access to the folder; its state (parameters, optimizer, step, place in the epoch)
 * is broadcast. Dies as checkpoint_load does. Collective. */
int snapshots_resume(Snapshots *snapshots);

/* Takes a snapshot after a step if --save-every-steps asks for it. Training waits only for the
 * copy. If the previous snapshot is still being written and more than two seconds old, this one is
 * skipped. A snapshot that cannot be written causes a warning; earlier ones stay, --keep of them at
 * most. Only rank 0 writes. Collective: before a snapshot the ranks check that the training has not
 * diverged. Under Open MPI's mpirun rank 0 also takes one at its first signal (stop_is_near), and
 * warns if that takes longer than mpirun waits. */
void snapshots_step(Snapshots *snapshots);

/* Does the same for the checkpoint of a finished epoch, if --save-every asks for it; but it is
 * never skipped. Local. */
void snapshots_epoch(Snapshots *snapshots, int epoch);

/* Calls all_check_divergence after the last snapshot is written. Returns whether the weights are
 * finite: --on-nan warn goes on if not. Collective. */
bool snapshots_check_divergence(Snapshots *snapshots);

/* Takes a snapshot before the ranks exit with EXIT_STOPPED, and waits until it is on disk. Dies if
 * it cannot be written. Collective, as snapshots_step. */
void snapshots_stop(Snapshots *snapshots);

/* Does checkpoint_save_final in the same way, at the end of training: waits until the file is on
 * disk, and dies if it cannot be written. Local. */
void snapshots_final(Snapshots *snapshots);

/* Waits for the writer. Local. */
void snapshots_free(Snapshots *snapshots);

#endif
