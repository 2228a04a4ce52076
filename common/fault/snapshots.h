/*
 * snapshots.h - the whole state of a run, saved while it goes on, and found again by its next
 * start.
 *
 * torch.distributed.checkpoint.async_save does the first half. Rank 0 copies its state, which is
 * every rank's, and a thread writes the copy.
 */
#ifndef COMMON_FAULT_SNAPSHOTS_H
#define COMMON_FAULT_SNAPSHOTS_H

#include <pthread.h>

#include "common/dist/process_group.h"
#include "common/io/checkpoint.h"

typedef struct {
    const Args *args;
    Checkpoint *checkpoint; // what is saved
    ProcessGroup *pg;
    int lock; // of the folder, see folder_lock.h
    bool writing; // there is a writer; on rank 0 only
    pthread_t writer;
    CheckpointCopy copy; // the writer's, while there is one
} Snapshots;

/* Pointers are borrowed. args: checkpoint_dir, resume, init_from, save_every_steps, keep. Rank 0
 * takes the folder for this run until snapshots_free, see folder_lock.h. */
void snapshots_init(Snapshots *snapshots, const Args *args, Checkpoint *checkpoint,
                    ProcessGroup *pg);

/* Brings all ranks to where the run goes on, and returns the epoch: with --resume auto by the
 * furthest checkpoint in --checkpoint-dir that is whole and of this run, else as checkpoint_load
 * does. Rank 0 alone reads, so no other node has to see the folder; what it has then (parameters,
 * optimizer, step, place in the epoch) all have. Dies as checkpoint_load does. Collective. */
int snapshots_resume(Snapshots *snapshots);

/* After each step: takes a snapshot where --save-every-steps says so. The training waits for the
 * copy alone, and where the one before is still being written, for that: a slow disk shows as a
 * pause, not as memory that grows. A snapshot that cannot be written is a warning; those before it
 * stay. --keep of them do. Local, as are those below: only rank 0 does anything. */
void snapshots_step(Snapshots *snapshots);

/* The same for the checkpoint of an epoch that is finished, where --save-every says so. */
void snapshots_epoch(Snapshots *snapshots, int epoch);

/* Before the ranks leave for EXIT_STOPPED: takes a snapshot and waits until it is on the disk. Dies
 * where it cannot be written. */
void snapshots_stop(Snapshots *snapshots);

/* Waits for the writer, and gives the folder back. */
void snapshots_free(Snapshots *snapshots);

#endif
