/*
 * reconfigure.h - the survivors of a failure go on in the same processes.
 *
 *     seat          a rank's number, which a process has: an incarnation, counted from 0
 *     generation    one group: an incarnation for each seat
 *
 * In the store, under the attempt's prefix; each value is one text, which is compared as a whole:
 *
 *     seat/<rank>   "<incarnation> new" by its launcher (seats.h), and by the process itself
 *                   "<incarnation> <generation that it has left>"
 *     generation    "<number> <incarnation in each seat> ..."
 *     suspect       "<rank> <incarnation>": it keeps the others waiting; its launcher kills it
 *     end           the exit status of all, when rank 0 has written the last file
 *
 * - A rank that loses its group leaves it and says so in its seat. When all seats have left the
 *   same generation, every rank proposes the next, by compare_set: the first proposal counts.
 * - The furthest step wins. A rank fails in a collective, so each has done step s or s + 1: if one
 *   has done s + 1, it sends its state to those that have not. Else all do s + 1 again.
 */
#ifndef FAULT_TOLERANCE_RECONFIGURE_H
#define FAULT_TOLERANCE_RECONFIGURE_H

#include "05_fault_tolerance/diagnostics.h"
#include "05_fault_tolerance/snapshots.h"
#include "05_fault_tolerance/stop.h"
#include "05_fault_tolerance/survivors.h"
#include "common/comm/dist_env.h"

/* Where a rank stands: after this step (-1: it has no state), so many batches of the epoch. */
typedef struct {
    int64_t step, epoch, batch;
    int64_t stops; // the ranks had agreed to stop there
} Place;

#define MAX_RANKS 512

typedef struct {
    const Args *args;
    ProcessGroup *pg;
    Snapshots *snapshots; // and with them model, optimizer and sampler
    Diagnostics *diagnostics;
    StopRequest *stop;
    int incarnation; // of this process
    char seat[64]; // what it has written there
    char record[16 * MAX_RANKS]; // of the newest generation
    int member[MAX_RANKS]; // the incarnations of this rank's generation
    int64_t generation; // its number; 0: none yet
    bool has_state; // else this process is new
    Place base; // where the generation began
    int futile; // generations since the last step
    int epoch; // in training
    bool joined; // the loop has not begun since
} Reconfigure;

/* In place of process_group_init: opens pg, without waiting for other ranks, and has one rank of
 * each node copy the data (scratch.h). Usage error if the launcher does not replace ranks, or with
 * options that do not go with it. */
void reconfigure_init(Reconfigure *reconfigure, const Args *args, const DistEnv *env,
                      ProcessGroup *pg, MemoryLocation place);

/* When everything local is ready: takes this rank's seat, and with the others forms a group, all at
 * the same step. The state is another rank's, or if no rank has one the one that snapshots_resume
 * finds. Pointers are borrowed; `stop` is zero until stop_init. Collective. */
void reconfigure_join(Reconfigure *reconfigure, Snapshots *snapshots, Diagnostics *diagnostics,
                      StopRequest *stop);

/* The epoch to train next, perhaps from its middle; if the group is revoked, in the next one. -1:
 * training has ended, and the last file is on disk. Exits if that was so when this rank lost its
 * group. Collective. */
int reconfigure_epoch(Reconfigure *reconfigure);

#endif
