/* snapshot_folder.h - which files of --checkpoint-dir a run resumes from, and which may go. */
#ifndef COMMON_FAULT_SNAPSHOT_FOLDER_H
#define COMMON_FAULT_SNAPSHOT_FOLDER_H

#include "common/io/checkpoint.h"

/* Of the checkpoints in the folder (epoch_N, snapshot_eE_sS, MODEL_DATASET) that are of this run,
 * loads the furthest one that is whole, as checkpoint_resume does, and says which; a damaged one is
 * said and left, those of other runs are said in one line. False where there is none. */
bool snapshot_folder_resume(Checkpoint *checkpoint);

/* Removes snapshots of this run and whole, but for the newest `keep` of those up to `step`. What is
 * further belongs to a run that went another way, or is why this one does not stand there. */
void snapshot_folder_prune(const Checkpoint *checkpoint, uint64_t step, int keep);

#endif
