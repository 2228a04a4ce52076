/* snapshot_folder.h - which checkpoints a run resumes from, and which may be removed. */
#ifndef FAULT_TOLERANCE_SNAPSHOT_FOLDER_H
#define FAULT_TOLERANCE_SNAPSHOT_FOLDER_H

#include "common/save/checkpoint.h"

/* What a checkpoint's header claims about its run; not verified. */
typedef struct {
    bool is_this_run; // same model, data set, seed, optimizer and global batch
    bool is_other_batch; // not this run's, but only the global batch differs
    uint64_t step;
    int epoch;
    // "PATH: was saved with seed 1, this run has 0", or why it cannot be read
    char error[sizeof((Safetensors *)0)->error];
} CheckpointClaim;

/* Reads only the header. Returns false, with a line in claim->error, if it is damaged. Local. */
bool checkpoint_peek(const Checkpoint *checkpoint, const char *path, CheckpointClaim *claim);

/* Loads the furthest valid one of this run's checkpoints in the folder (epoch_N, snapshot_eE_sS,
 * MODEL_DATASET), as checkpoint_resume does, and logs which; skips damaged ones, each with a line,
 * and those of other runs, with one line for all. Returns false if there is none. */
bool snapshot_folder_resume(Checkpoint *checkpoint);

/* Calls checkpoint_copy for DIR/snapshot_eE_sS, after S steps, in epoch E, which ends only when it
 * has been evaluated. */
void snapshot_copy(const Checkpoint *checkpoint, CheckpointCopy *copy);

/* Moves a file of another run in its place, before the file is written, with --resume auto, to
 * DIR/aside/NAME.NUMBER.safetensors; the number follows from that run and its position, so nothing
 * there is lost, and the same result is kept once. As checkpoint_commit, on failure it frees the
 * copy and returns false, with a line in copy->file.error. */
bool snapshot_folder_set_aside(const Checkpoint *checkpoint, CheckpointCopy *copy);

/* Removes valid snapshots of this run, except the newest `keep` up to `step`. Snapshots after
 * `step` stay, because they are from a diverged run, or damaged and skipped at resume. */
void snapshot_folder_prune(const Checkpoint *checkpoint, uint64_t step, int keep);

/* Returns how often this job was restarted: by a launcher (TORCHELASTIC_RESTART_COUNT), and by
 * Slurm's requeue (SLURM_RESTART_COUNT), after which a launcher counts from 0 again; 0: never, or
 * unknown. Local. */
int restart_count(void);

/* Writes where the folder lies, for messages: "/mnt (/dev/sdb1, ext4)", mount point, device and
 * file system. Returns text. */
enum { DISK_BYTES = 256 };
char *snapshot_folder_disk(const char *dir, char text[DISK_BYTES]);

#endif
