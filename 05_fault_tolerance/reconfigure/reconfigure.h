/*
 * reconfigure.h - the survivors of a failure go on in the same processes.
 *
 * - Once a call fails the group is revoked: that call and all later ones return at once, on every
 *   rank, with undefined results. So check pg->revoked before you use a result. (MPI's ULFM has the
 *   word; Bland et al., IJHPCA 2013.)
 * - All agree on the next group (agreement.h), which has new connections.
 * - The furthest step wins. A rank fails in a collective, so each has done step s or s + 1: if one
 *   has done s + 1, it sends its state to those that have not. Else all do s + 1 again.
 * - nccl does not see that a rank is gone. So the host waits for each call, and reads the seats
 *   meanwhile. If one has changed, it aborts the communicator; the next group gets a new one.
 */
#ifndef FAULT_TOLERANCE_RECONFIGURE_H
#define FAULT_TOLERANCE_RECONFIGURE_H

#include "05_fault_tolerance/diagnostics.h"
#include "05_fault_tolerance/reconfigure/agreement.h"
#include "05_fault_tolerance/snapshots.h"
#include "05_fault_tolerance/stop.h"
#include "common/comm/dist_env.h"

/* Where a rank stands: the last step (-1 if it has no state), and its batches of the epoch. */
typedef struct {
    int64_t step, epoch, batch;
    int64_t stops; // the ranks had agreed to stop there
} Place;

typedef struct {
    const Args *args;
    ProcessGroup *pg;
    Snapshots *snapshots;
    Optimizer *optim; // the snapshots', as is the sampler
    Sampler *sampler;
    Diagnostics *diagnostics;
    StopRequest *stop;
    Agreement agreement;
    int64_t batch_size;
    Place base; // where the generation began
    int stalled; // generations since the last step
    double looked; // when keeps_waiting last read the seats
    int epoch; // the epoch in training
    bool joined; // has joined a group; the loop has not begun since
} Reconfigure;

/* Opens pg, in place of process_group_init; waits for no other node, and has one rank of each copy
 * the data (scratch.h). Usage error without such a launcher, or with options that do not go with
 * it. */
void reconfigure_init(Reconfigure *reconfigure, const Args *args, const DistEnv *env,
                      ProcessGroup *pg, MemoryLocation place);

/* Forms a group with the others, all at the same step, when everything local is ready. The state is
 * another rank's, or if no rank has one the one that snapshots_resume finds. Pointers are borrowed;
 * `stop` is zero until stop_init. Collective. */
void reconfigure_join(Reconfigure *reconfigure, Snapshots *snapshots, Diagnostics *diagnostics,
                      StopRequest *stop);

/* Returns the epoch to train next, perhaps from its middle; if the group is revoked, in the next
 * one. -1 if training has ended, and the last file is on disk. Exits if that was so when this rank
 * lost its group. Collective. */
int reconfigure_epoch(Reconfigure *reconfigure);

#endif
