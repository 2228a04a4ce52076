/*
 * phases.h - small trainings of lab-snapshot, in forked ranks, with the learner's snapshots.
 *
 * A phase is a start of the program on all ranks. The state after each step is known from a run
 * that is not interrupted; what snapshots_resume restores must be one of these states, bit for bit.
 */
#ifndef TEACH_LAB_SNAPSHOT_PHASES_H
#define TEACH_LAB_SNAPSHOT_PHASES_H

#include <limits.h>

#include "teach/lab/ranks.h"
#include "teach/lab/served.h"
#include "teach/lab/snapshot/disk.h"

#define MOST_STEPS 40
#define MOST_NUMEL 64
#define BATCH 6
#define ROWS 64

/* The options of a run. */
typedef struct {
    const char *optimizer;
    uint64_t seed;
    int every, keep, rows, batch;
} RunSetting;

/* The whole state of a run. */
typedef struct {
    float params[MOST_NUMEL], state[2][MOST_NUMEL];
    uint64_t step;
    int epoch;
    size_t position; // rows of the epoch that all ranks have taken
} State;

/* The memory that all ranks share. */
typedef struct {
    State due[MOST_STEPS + 1]; // states of the uninterrupted run, after each step
    uint64_t resumed; // step from which the last phase resumed
    char newest[MOST_STEPS + 1][8][256]; // the files that came or changed with a step's snapshot
    DiskLog disk;
} Shared;

extern Shared *shared;
extern int rung, num_ranks;
extern uint64_t seed;
extern char base[512]; // parent of all folders
extern RunSetting setting;

typedef struct {
    const char *folder, *stage;
    int steps; // last step; number of steps for a resumed run
    bool resumes, watches, power, stops, delays;
    bool none; // whether it runs with --resume none
    int nan_from; // step from which weights are not finite (0 if never)
    const char *otherwise; // hint for weights that are wrong
    int full_from, full_bytes; // step from which the disk is full; most bytes of a file then
} Phase;

/* Writes rank 0's folder, base/NAME, to path; each other rank has an empty one. */
void folder_of(int rank, const char *name, char path[PATH_MAX]);

/* Runs it; ends this process if there was a fault. `stage` is the hint if a rank crashes. */
void play_all(const char *stage, Phase phase);

/* Sets the run's setting and makes its states, or those of `setting` as it is. */
void begin(const char *optimizer, int every, int keep);
void make_due(void);

void answer_run(ProcessGroup *pg, const Order *order, void *data); // for lab_serve

#endif
